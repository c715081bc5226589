/* Timeline: the panel of a measured span: what is in it by kind, operator and line. All text. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const TITLES = { host: "Host", device: "Device", compile: "Compilation" };
  const LANES = { host: "thread", device: "stream", compile: "lane" };

  const head = (text, ...more) => el("h3", { class: "tl-h" }, text, ...more);

  /** Sections of a span: `answers` has the groups by operator and by line, null until they are known. */
  nx.spanContents = function (app, t0, t1, answers) {
    if (!answers.op) return [el("p", { class: "tl-empty" }, "Loading …")];
    if (!answers.op.length) return [el("p", { class: "tl-empty" }, "No event of a thread, a device or a compilation reaches into it.")];
    const out = [];
    for (const group of answers.op) {
      const title = answers.op.length > 1 ? TITLES[group.group] : "";
      const whole = (t1 - t0) * group.lanes;
      const where = nx.plural(group.lanes, LANES[group.group]);
      out.push(
        head(`${title || "Inside"}: ${nx.duration(group.self)} in ${nx.plural(group.events, "event")} on ${where}`),
        el("p", { class: "tl-note" }, whole > group.self ? `${nx.duration(whole - group.self)} of ${nx.duration(whole)} outside of events. ` : "", "Self time, cut at the edges; each list adds up to the whole."),
        parts(app, "by kind", group.self, group.kinds, (part) => [el("span", { class: `tl-swatch tl-c-${part.key}` }), part.text]),
        parts(app, "by operator", group.self, group.parts, (part) => link(app, nx.shortName(part.text) || "unnamed", part.text, { op: part.text })));
      const lines = answers.line && answers.line.find((other) => other.group === group.group);
      if (lines) out.push(parts(app, "by line", lines.self, lines.parts, (part) => (part.line > 0 ? link(app, `${part.text.split("/").pop()}:${part.line}`, `${part.text}:${part.line}`, { line: `${part.text}:${part.line}` }) : "no line")));
      else out.push(el("p", { class: "tl-empty" }, "by line: loading …"));
    }
    return out;
  };

  function link(app, text, whole, filter) {
    const short = text.length > 60 ? text.slice(0, 60) + "…" : text;
    return el("button", { type: "button", class: "tl-link", title: `${whole.slice(0, 500)}: highlight its events`, onclick: () => app.setFilter(filter) }, short);
  }

  function parts(app, title, all, found, label) {
    const row = (name, events, self, whole) => el("tr", {},
      el("th", { scope: "row", title: whole }, name), el("td", {}, nx.count(events)), el("td", {}, nx.duration(self)), el("td", {}, all ? `${((100 * self) / all).toFixed(1)} %` : "–"));
    const { shown, more } = found;
    const events = shown.reduce((n, part) => n + part.events, more.events);
    return el("table", { class: "tl-contents" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, title), el("th", { scope: "col" }, "events"), el("th", { scope: "col" }, "self"), el("th", { scope: "col" }, "share"))),
      el("tbody", {}, ...shown.map((part) => row(label(part), part.events, part.self, part.text.slice(0, 500))),
        more.parts ? row(nx.plural(more.parts, "other"), more.events, more.self) : null),
      el("tfoot", {}, row("together", events, all)));
  }
})();
