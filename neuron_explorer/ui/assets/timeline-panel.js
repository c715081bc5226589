/* Timeline: the panel beside it. Everything from a trace is set as text. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;

  nx.Panel = class {
    /** `app`: the timeline; it is asked to select, filter and fit. */
    constructor(app, node) {
      this.app = app;
      this.node = node;
    }

    set(...children) {
      this.node.replaceChildren(...children.flat().filter(Boolean));
      this.node.parentNode.scrollTop = 0;
    }

    /** Nothing is selected: how to begin, and what is not in the picture. */
    idle(meta) {
      const notes = [];
      if (meta.unended) notes.push(`${nx.plural(meta.unended, "event")} without an observed end: hatched, drawn to the end of the trace.`);
      if (meta.not_drawn) notes.push(`${nx.plural(meta.not_drawn, "event")} not drawn: too many overlap on one lane.`);
      if (meta.out_of_range) notes.push(`${nx.plural(meta.out_of_range, "event")} with impossible times, not drawn.`);
      this.set(
        el("h2", { class: "tl-h" }, "Event"),
        el("p", { class: "tl-empty" }, "Click an event to see its line, times and links, or press Enter to take the first one in view."),
        el("dl", { class: "tl-facts" },
          ...fact("events", nx.count(meta.events)),
          ...fact("length", nx.duration(meta.end)),
          ...fact("lanes", nx.count(meta.lanes.length)),
          ...(meta.series.length ? fact("counter samples", nx.count(meta.series.reduce((n, s) => n + s.n, 0))) : []),
          ...(meta.steps ? fact("steps", meta.steps.replace(/^steps: /, "")) : [])),
        notes.length ? el("h3", { class: "tl-h" }, "Not in the picture as it was") : null,
        ...notes.map((note) => el("p", { class: "tl-note" }, note)),
      );
    }

    waiting(brief) {
      this.set(el("h2", { class: "tl-h" }, "Event"), el("div", { class: "tl-name" }, brief.name || "unnamed"), el("p", { class: "tl-empty" }, "Loading …"));
    }

    failed(text) {
      this.set(el("h2", { class: "tl-h" }, "Event"), el("p", { class: "tl-empty" }, text));
    }

    event(event, among = 1) {
      const own = event.kind === "op" || event.kind === "autograd";
      const named = event.phase && event.phase !== "other" ? event.phase : "";
      const phase = own ? named || "operator" : event.kind.replace("_", " ") + (named ? ", " + named : "");
      this.set(
        el("h2", { class: "tl-h" }, "Event"),
        el("div", { class: "tl-name", title: event.name }, clipped(event.name || "unnamed", 400)),
        el("div", { class: "tl-sub" }, phase || event.kind, event.module ? [" · ", el("span", { class: "mono" }, clipped(event.module, 200))] : null),
        // A wide slice only has neighbours at its edge.
        among > 1 && event.end - event.start < 3 * this.app.view.nsPerPx ? el("p", { class: "tl-note" }, `One of ${nx.count(among)} events in this pixel; W zooms in.`) : null,
        this.times(event),
        nx.compilation(this.app, event),
        this.source(event),
        this.kernel(event.kernel),
        this.tensors(event),
        this.work(event),
        this.links(event),
        this.stack(event),
      );
    }

    times(event) {
      const open = event.duration < 0;
      const compiles = event.kind === "compile" || event.kind === "recompile";
      const instant = event.duration === 0 && Boolean(event.compilation);
      const { on_device: device } = event;
      const host = compiles ? "time to compile" : this.app.meta.asynchronous && event.kind !== "device" ? "host submit" : event.kind === "device" ? "device" : "host duration";
      return el("dl", { class: "tl-facts" },
        ...(instant ? [] : fact(host, open ? "end not observed" : nx.duration(event.duration))),
        ...(event.self >= 0 && !open && !instant && event.kind !== "recompile" ? fact(compiles ? "in no part" : event.kind === "device" ? "self" : "self (host)", nx.duration(event.self)) : []),
        ...(device && !compiles ? onDevice(device) : []),
        ...fact("start", nx.time(event.start, Math.max(1, event.duration > 0 ? event.duration / 100 : 1000))),
        ...(event.step >= 0 ? fact("step", `${nx.count(event.step)}${event.period ? ", " + event.period : ""}`) : []),
        ...fact("lane", `${event.lane.name}${event.lane.process_name && event.lane.process_name !== "main" ? ", " + event.lane.process_name : ""}, depth ${event.lane.depth}`),
        ...(event.compilation && event.compilation.facts ? event.compilation.facts : []).flatMap(([label, text]) => fact(label, text)),
        ...event.facts.flatMap(([label, text]) => fact(label, text)),
      );
    }

    source(event) {
      const out = [];
      if (event.file && event.line > 0) {
        out.push(el("h3", { class: "tl-h" }, "Source ", this.line(event)));
      } else {
        out.push(el("h3", { class: "tl-h" }, "Source"));
      }
      out.push(excerpt(event.source, event.line));
      if (event.attribution) out.push(el("p", { class: "tl-note", "data-attribution": event.attribution.key }, event.attribution.text));
      return out;
    }

    /** A link to a line: `place` has file, line and function. */
    line(place) {
      const query = new URLSearchParams({ file: place.file, line: place.line });
      return el("a", { class: "tl-line", href: `/t/${encodeURIComponent(this.app.traceId)}/source?${query}`, title: `${place.file}:${place.line}, in ${place.function || "?"}` }, `${clipped(place.file.split("/").pop(), 60)}:${place.line}`);
    }

    /** The function that the program registered as the operator's kernel. */
    kernel(kernel) {
      if (!kernel) return null;
      return [el("h3", { class: "tl-h", title: kernel.function }, `Kernel ${clipped(kernel.function, 60)} `, this.line(kernel)), excerpt(kernel.source, kernel.line)];
    }

    /** FLOPs, bytes, and the least time they take on a chip. */
    work(event) {
      const { work } = event;
      if (!work) return null;
      if (!work.floors) return work.reason ? el("p", { class: "tl-note" }, `FLOPs and floor: ${work.reason}.`) : null;
      const taken = event.on_device ? event.on_device.total : event.duration;
      return [el("h3", { class: "tl-h" }, "Work and floor"),
        el("dl", { class: "tl-facts" },
          ...fact("arithmetic", work.flops),
          ...fact("memory", work.moved),
          ...work.floors.flatMap((floor) => fact(`floor, ${floor.chip}`, `${nx.duration(Math.max(1, floor.ns))}, ${floor.bound}`))),
        el("p", { class: "tl-note" }, `From shapes, for one device of each chip; it is a floor, not an estimate.${taken > 0 && !event.on_device ? " The time above is the host's, not a chip's." : ""}`)];
    }

    tensors(event) {
      if (!event.tensors.length) return null;
      return [el("h3", { class: "tl-h" }, "Arguments"),
        el("ul", { class: "tl-tensors" }, ...event.tensors.map((t) => el("li", { title: t.strides ? `strides ${t.strides}` : null },
          t.shape ? [el("span", {}, t.shape), t.dtype ? el("span", { class: "tl-dtype" }, t.dtype) : null] : el("span", { class: "tl-dtype" }, t.value))))];
    }

    links(event) {
      const items = [];
      const go = (brief, sign, text) => el("li", {}, el("button", { type: "button", class: "tl-link", onclick: () => this.app.jump(brief) }, el("span", { "aria-hidden": "true" }, sign + " "), text));
      for (const link of event.links) {
        const when = link.after >= 0 ? `${nx.duration(link.after)} later` : `${nx.duration(-link.after)} earlier`;
        items.push(go(link, "↔", `${link.label}: ${clipped(nx.shortName(link.name), 80)}, ${when}`));
      }
      if (event.launches) items.push(el("li", { class: "tl-children" }, `launched ${nx.count(event.launches.count)} ${event.launches.count === 1 ? "time" : "times"}, ${nx.duration(event.launches.total)} in all`));
      if (event.parent) items.push(go(event.parent, "↑", `parent: ${clipped(nx.shortName(event.parent.name), 80)}`));
      const children = event.children;
      if (children.count) {
        items.push(el("li", { class: "tl-children" }, `↓ ${nx.plural(children.count, "child event")}, ${nx.duration(children.total)} in all`));
        for (const child of children.longest) items.push(el("li", { class: "tl-child" }, el("button", { type: "button", class: "tl-link", onclick: () => this.app.jump(child) }, clipped(nx.shortName(child.name), 80)), el("span", {}, nx.duration(child.duration))));
        if (children.count > children.longest.length) items.push(el("li", { class: "tl-note" }, `${nx.count(children.count - children.longest.length)} shorter ones not listed`));
      }
      if (event.same_line) {
        const { count, total, in_step } = event.same_line;
        const label = `${nx.plural(count, "event")} at this line${in_step ? " in this step" : ""}, ${nx.duration(total)}`;
        items.push(el("li", {}, el("button", { type: "button", class: "tl-link", title: "Highlight all events of this line", onclick: () => this.app.filterLine(event.file, event.line) }, el("span", { "aria-hidden": "true" }, "≡ "), label)));
      }
      return items.length ? [el("h3", { class: "tl-h" }, "Links"), el("ul", { class: "tl-links" }, ...items)] : null;
    }

    stack(event) {
      const { frames, more } = event.stack;
      if (!frames.length) return null;
      const shown = frames.slice(0, 60);
      return el("details", { class: "tl-stack" },
        el("summary", {}, `Python stack, ${nx.plural(frames.length + more, "frame")}`),
        el("ol", {}, ...shown.map((frame) => el("li", { class: frame.user ? "tl-user" : null, title: `${frame.file}:${frame.line}` },
          el("span", { class: "tl-function" }, clipped(frame.function || "?", 120)), el("span", { class: "tl-place" }, `${clipped(frame.file.split("/").pop(), 60)}:${frame.line}`)))),
        frames.length + more > shown.length ? el("p", { class: "tl-note" }, `${nx.count(frames.length + more - shown.length)} outer frames not listed`) : null);
    }

    /** The hits of a search, when no event is selected. */
    hits(answer, label) {
      const { count, first, hits } = answer;
      const apart = hits.length > 1 ? (hits[hits.length - 1].start - hits[0].start) / 1000 : 1;
      this.set(
        el("h2", { class: "tl-h" }, "Matches"),
        el("div", { class: "tl-name" }, clipped(label, 200)),
        el("div", { class: "tl-sub" }, count ? nx.plural(count, "event") : "no event matches"),
        count === 0 ? el("p", { class: "tl-empty" }, "Search looks at names, modules and file:line. op:, line:, module:, shape:, phase:, kind: and step: look at one of them; * stands for anything. sql: takes a condition, as in sql: duration > 1e6 and phase = 'backward'.") : null,
        count ? el("div", { class: "tl-hits-head" }, el("span", {}, "name"), el("span", {}, "start"), el("span", {}, "duration")) : null,
        el("ol", { class: "tl-hits", start: first + 1 }, ...hits.map((hit) => el("li", {}, el("button", { type: "button", class: "tl-link", title: clipped(hit.name, 500), onclick: () => this.app.jump(hit) }, clipped(nx.shortName(hit.name), 60)),
          el("span", {}, nx.time(hit.start, Math.max(1, apart))), el("span", {}, hit.open ? "no end" : nx.duration(hit.end - hit.start))))),
        answer.cut ? el("p", { class: "tl-note" }, `The condition picks more; the first ${nx.count(200000)} of its answer are looked at.`) : null,
        count > hits.length ? this.pages(answer) : null,
      );
    }

    /** Which of the hits are listed, and the way to the others. */
    pages({ count, first, hits }) {
      const go = (text, label, to) => el("button", { type: "button", class: "tl-button", "aria-label": label, disabled: to === null, onclick: () => this.app.listHits(to) }, text);
      const size = nx.HITS_LISTED;
      return el("div", { class: "tl-pages", role: "group", "aria-label": "Pages of matches" },
        go("«", "First matches", first > 0 ? 0 : null),
        go("‹", "Earlier matches", first > 0 ? Math.max(0, first - size) : null),
        el("span", {}, `${nx.count(first + 1)} to ${nx.count(first + hits.length)} of ${nx.count(count)}, by time`),
        go("›", "Later matches", first + hits.length < count ? first + size : null),
        go("»", "Last matches", first + hits.length < count ? Math.floor((count - 1) / size) * size : null));
    }

    /** A measured span. `answers`: what is in it by operator and line, as far as it is known. */
    span(t0, t1, events, answers = {}) {
      this.set(
        el("h2", { class: "tl-h" }, "Span"),
        el("div", { class: "tl-name" }, nx.duration(t1 - t0)),
        el("dl", { class: "tl-facts" },
          ...fact("from", nx.time(t0, Math.max(1, (t1 - t0) / 1000))),
          ...fact("to", nx.time(t1, Math.max(1, (t1 - t0) / 1000))),
          ...fact("events that touch it", events === null ? "…" : nx.count(events))),
        ...nx.spanContents(this.app, t0, t1, answers),
        el("p", { class: "tl-note" }, "F fits the window to the span, M keeps it as a mark, Escape drops it."),
      );
    }
  };

  /** Lines of source around one of them, or why they are not there. */
  function excerpt(context, line) {
    if (!context) return null;
    if (!context.lines) return el("p", { class: "tl-note" }, context.reason);
    return el("div", { class: "source tl-source", tabindex: "0", role: "region", "aria-label": `Source around line ${line}` },
      ...context.lines.map((text, i) => {
        const number = context.first + i;
        const current = number === line;
        return el("div", { class: current ? "source-line source-line-current" : "source-line", "aria-current": current ? "true" : null },
          el("span", { class: "source-number" }, String(number)), el("span", { class: "source-text" }, text || " "));
      }));
  }

  /** Time on the device and until it was done, each named; or that neither was seen. */
  function onDevice(device) {
    if (!device.count) return [...fact("device", "not observed"), ...fact("synchronised", "not observed")];
    return [...fact("device", `${nx.duration(device.total)} in ${nx.plural(device.count, "execution")}`), ...fact("synchronised", nx.duration(device.until))];
  }

  function fact(label, text) {
    return [el("dt", {}, label), el("dd", {}, text)];
  }

  function clipped(text, most) {
    return text.length > most ? text.slice(0, most) + "…" : text;
  }
})();
