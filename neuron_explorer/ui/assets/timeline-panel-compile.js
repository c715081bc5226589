/* Timeline: what the panel says of compilations, recompilations, graph breaks and reached limits. All text. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;

  const clipped = (text, most) => (text.length > most ? text.slice(0, most) + "…" : text);
  const head = (text) => el("h3", { class: "tl-h" }, text);
  const note = (text) => el("p", { class: "tl-note" }, text);
  const more = (n, what) => (n > 0 ? note(`${nx.count(n)} more ${what} not listed`) : null);

  /** The sections of the panel for one event; `app` is the timeline. */
  nx.compilation = function (app, event) {
    const c = event.compilation;
    if (!c) return [];
    return [
      c.note ? note(c.note) : null,
      ...reasons(app, c.reasons, event.kind === "warning" ? "Why it would be compiled again" : "Why it was compiled again"),
      ...broken(c),
      ...callers(app, c.callers, c.reasons && c.reasons.shown.length ? "Called from" : "Compiled for a call from"),
      ...phases(c.phases, event),
      ...(c.failure && c.failure.length ? [head("Failure"), facts(c.failure)] : []),
      ...(c.restarts && c.restarts.length ? [head("Earlier attempts ended because"), list(c.restarts)] : []),
      ...graph(app, c.graph),
      ...(c.inputs && c.inputs.length ? [head("Inputs of the graph"), facts(c.inputs)] : []),
      ...guards(c.guards),
    ].filter(Boolean);
  };

  function place(app, at) {
    const query = new URLSearchParams({ file: at.file, line: at.line });
    return el("a", { class: "mono", href: `/t/${encodeURIComponent(app.traceId)}/source?${query}`, title: `${at.file}:${at.line}${at.function ? ", in " + at.function : ""}` },
      `${clipped(at.file.split("/").pop(), 60)}:${at.line}`);
  }

  function facts(pairs) {
    return el("dl", { class: "tl-facts" }, ...pairs.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)]));
  }

  function list(texts) {
    return el("ul", { class: "tl-texts" }, ...texts.map((text) => el("li", {}, text)));
  }

  /** Why it was compiled again: the closest cache entry's reason whole, the others folded. */
  function reasons(app, found, title) {
    if (!found || !found.shown.length) return [];
    const [first, ...others] = found.shown;
    return [
      head(title),
      reason(app, first),
      others.length ? el("details", { class: "tl-stack" }, el("summary", {}, `${nx.plural(others.length + found.more, "other cache entry", "other cache entries")} did not fit either`),
        ...others.map((each) => reason(app, each)), more(found.more, "reasons")) : null,
    ];
  }

  function reason(app, r) {
    const what = r.source ? el("span", { class: "mono" }, clipped(r.source, 200)) : null;
    const dimension = r.dimension >= 0 && !r.source.endsWith(`[${r.dimension}]`) ? `dimension ${r.dimension} of ` : "";
    return el("div", { class: "tl-reason" },
      el("div", { class: "tl-cause", title: r.meaning }, r.cause || "no class", what ? [": ", dimension, what] : null),
      r.expected || r.actual ? el("div", { class: "tl-before" },
        el("span", { class: "tl-was" }, el("small", {}, "expected"), el("span", { class: "mono" }, r.expected || "not observed")),
        el("span", { class: "tl-to", "aria-hidden": "true" }, "→"),
        el("span", { class: "tl-is" }, el("small", {}, "found"), el("span", { class: "mono" }, r.actual || "not observed"))) : null,
      r.guard || r.text ? el("div", { class: "tl-guard", tabindex: "0", role: "region", "aria-label": "Guard that failed" }, r.guard || r.text) : null,
      r.place || r.entry ? el("div", { class: "tl-note" }, r.place ? ["guard from ", place(app, r.place)] : null, r.entry ? `${r.place ? ", " : ""}cache entry ${r.entry}` : null) : null);
  }

  function broken(c) {
    if (c.text === undefined) return [];
    return [
      head("Why Dynamo left the graph"),
      el("div", { class: "tl-guard", tabindex: "0", role: "region", "aria-label": "Reason" }, c.text || "no reason given"),
      c.explanation ? el("p", { class: "tl-note tl-lines" }, c.explanation) : null,
      c.hints.length ? list(c.hints) : null,
    ];
  }

  function callers(app, found, title) {
    if (!found || !found.shown.length) return [];
    return [
      head(title),
      el("ol", { class: "tl-places" }, ...found.shown.map((at) => el("li", {}, el("span", { class: "tl-function mono" }, clipped(at.function || "?", 80)), place(app, at)))),
      more(found.more, "callers"),
    ];
  }

  function phases(rows, event) {
    if (!rows || !rows.length) return [];
    const whole = Math.max(1, event.duration, ...rows.map((row) => row.own));
    return [
      head("Time by part"),
      el("ul", { class: "tl-parts" }, ...rows.map((row) => el("li", { title: row.meaning || null },
        el("span", {}, row.name, row.count > 1 ? el("small", {}, ` × ${nx.count(row.count)}`) : null),
        el("span", { class: "tl-bar", "aria-hidden": "true" }, el("span", { style: `width:${Math.max(1, Math.round((100 * row.own) / whole))}%` })),
        el("span", {}, nx.duration(row.own))))),
    ];
  }

  function graph(app, found) {
    if (!found) return [];
    const count = Math.max(found.count, found.kept);
    return [
      head(`Graph: ${nx.plural(count, "operation")} by line`),
      el("ul", { class: "tl-graph" }, ...found.lines.map((line) => el("li", {},
        line.place ? place(app, line.place) : el("span", { class: "tl-note" }, "no line"),
        el("span", { class: "mono" }, line.ops.join(", ")),
        line.count > 1 ? el("small", {}, nx.count(line.count)) : null))),
      more(found.more, "lines"),
      found.truncated ? note(`The trace keeps ${nx.count(found.kept)} of them.`) : null,
    ];
  }

  function guards(found) {
    if (!found || (!found.shown.length && found.count < 0)) return [];
    const count = Math.max(found.count, found.shown.length + found.more);
    if (!found.shown.length) return [note(`${nx.plural(count, "guard")}, whose texts were not kept`)];
    const hidden = count - found.shown.length;
    return [
      el("details", { class: "tl-stack" }, el("summary", {}, nx.plural(count, "guard")),
        el("ul", { class: "tl-texts tl-guards" }, ...found.shown.map((text) => el("li", {}, text))), more(hidden, "guards")),
    ];
  }
})();
