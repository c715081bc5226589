/* Timeline: the component. Builds its own nodes inside #timeline-root, draws once a frame,
   and tells Dash of the window and the selection (state only, never pixels). */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;

  class Timeline {
    constructor(root) {
      this.root = root;
      this.traceId = root.dataset.trace;
      this.selected = null;
      this.details = null;
      this.span = null;
      this.marks = [];
      this.filter = {};
      this.hits = null;
      this.pointerAt = null;
      this.dirty = { frame: false, labels: true };
      this.stats = { frames: 0, draw: 0 };
      this.build();
      this.source = new nx.Source(this.traceId, () => this.invalidate(), (error) => this.trouble(error), () => (this.banner.hidden = true));
      this.start();
    }

    build() {
      this.toolbar = el("div", { class: "tl-toolbar" });
      this.legend = el("ul", { class: "tl-legend", "aria-label": "Colours" });
      this.found = el("div", { class: "tl-found", role: "group", "aria-label": "Matches", hidden: true });
      this.toolbar.append(this.legend, this.found);
      this.mapCanvas = el("canvas", { class: "tl-map", "aria-hidden": "true" });
      this.axisCanvas = el("canvas", { class: "tl-axis", "aria-hidden": "true" });
      this.headCanvas = el("canvas", { class: "tl-head-canvas", "aria-hidden": "true" });
      this.body = el("canvas", { class: "tl-body", "aria-hidden": "true" });
      this.overlay = el("canvas", { class: "tl-overlay", "aria-hidden": "true" });
      this.labels = el("div", { class: "tl-labels" });
      this.headLabels = el("div", { class: "tl-head-labels" });
      this.anchor = el("div", { class: "tl-anchor" });
      this.sticky = el("div", { class: "tl-sticky" }, this.labels, this.body);
      this.spacer = el("div", { class: "tl-spacer" });
      this.scroller = el("div", { class: "tl-scroll", tabindex: "-1" }, this.sticky, this.spacer);
      this.tip = el("div", { class: "tl-tip", hidden: true, "aria-hidden": "true" });
      this.status = el("div", { class: "visually-hidden", role: "status" });
      this.banner = el("div", { class: "tl-banner", role: "alert", hidden: true });
      this.stage = el("div", { class: "tl-stage", tabindex: "0", role: "application", "aria-roledescription": "timeline",
        "aria-label": "Timeline of the run. Enter selects the first event in view, Tab and arrow keys walk events, question mark lists the keys." },
        el("div", { class: "tl-top" },
          el("div", { class: "tl-corner" }), this.mapCanvas, this.anchor, this.axisCanvas, this.headLabels, this.headCanvas),
        this.scroller, this.overlay, this.tip);
      this.hint = el("div", { class: "tl-hint" });
      this.keys = el("div", { class: "tl-keys" }, ...[[["W", "S"], "zoom"], [["A", "D"], "pan"], [["F"], "fit"], [["M"], "mark"]].map(([keys, text]) => el("span", {}, ...keys.map((k) => el("kbd", {}, k)), " " + text)),
        el("button", { type: "button", class: "tl-keys-all", onclick: () => this.toggleHelp() }, el("kbd", {}, "?"), " all keys"));
      this.info = el("div", { class: "tl-info" });
      this.hint.append(this.keys, this.info);
      this.main = el("section", { class: "card tl-main", "aria-label": "Timeline" }, this.toolbar, this.banner, this.stage, this.hint);
      this.panelNode = el("aside", { class: "card tl-panel", "aria-label": "Event" });
      this.root.replaceChildren(this.main, this.panelNode, this.status);
      this.panel = new nx.Panel(this, this.panelNode);
      this.message("Loading …");
    }

    message(title, ...more) {
      this.root.dataset.state = "message";
      this.panel.set();
      this.banner.hidden = true;
      if (!this.note) this.note = el("div", { class: "tl-message", role: "status" });
      this.note.replaceChildren(el("p", { class: "tl-message-title" }, title), ...more);
      if (!this.note.isConnected) this.main.prepend(this.note);
    }

    async start() {
      try {
        const meta = await this.source.open((share) => this.message("Building the timeline's index",
          el("progress", { max: "1", value: String(share), "aria-label": "Index" }),
          el("p", {}, "Once per trace. It is a cache beside the trace and can be deleted at any time.")));
        if (!meta || !this.alive()) return;
        this.meta = meta;
        if (!meta.events) {
          this.message("This trace has no events", el("p", {}, "Nothing ran between the start and the end of the recording. Record a few steps:"),
            el("pre", { class: "tl-code mono" }, "with neuron_explorer.profile(\"trace.parquet\") as prof:\n    for batch in loader:\n        train_step(batch)\n        prof.step()"));
          return;
        }
        this.ready();
      } catch (error) {
        if (!this.alive()) return;
        this.message(error instanceof nx.Gone ? "The trace is gone" : "The timeline cannot be shown", el("p", {}, error.message), this.retryButton());
      }
    }

    retryButton() {
      return el("button", { type: "button", class: "tl-button", onclick: () => nx.remount(this.root) }, "Load again");
    }

    ready() {
      delete this.root.dataset.state;
      if (this.note) this.note.remove();
      this.view = new nx.View(this.meta);
      this.painter = new nx.Painter(this.source, this.view);
      this.minimap = new nx.Minimap(this.meta);
      this.palette = new nx.Palette(this.root, this.meta.categories);
      this.input = new nx.Input(this);
      this.drawLegend();
      this.panel.idle(this.meta);
      this.abort = new AbortController();
      const signal = this.abort.signal;
      this.resizer = new ResizeObserver(() => this.resize());
      this.resizer.observe(this.scroller);
      this.scroller.addEventListener("scroll", () => {
        this.view.scroll = this.scroller.scrollTop;
        this.dirty.labels = true;
        this.invalidate();
      }, { signal });
      window.addEventListener("nx-theme", () => {
        this.palette = new nx.Palette(this.root, this.meta.categories);
        this.invalidate();
      }, { signal });
      window.addEventListener("popstate", () => this.applyState(), { signal });
      this.resize();
      this.applyState();
    }

    alive() {
      if (this.root.isConnected && this.root.nxApp === this) return true;
      this.close();
      return false;
    }

    close() {
      if (this.closed) return;
      this.closed = true;
      this.source.close();
      if (this.input) this.input.close();
      if (this.abort) this.abort.abort();
      if (this.resizer) this.resizer.disconnect();
      clearTimeout(this.settling);
      clearTimeout(this.hoverTimer);
    }

    /* ---- drawing ---- */

    resize() {
      const width = this.scroller.clientWidth - this.labels.offsetWidth - 12;
      this.view.width = Math.max(100, width);
      this.view.height = Math.max(40, this.scroller.clientHeight);
      this.arranged();
    }

    arranged() {
      const { view } = this;
      this.sticky.style.height = view.height + "px";
      this.spacer.style.height = Math.max(0, view.total - view.height) + "px";
      this.headLabels.style.height = view.headHeight + "px";
      this.headCanvas.style.display = view.headHeight ? "" : "none";
      view.scroll = Math.min(view.scroll, Math.max(0, view.total - view.height));
      this.scroller.scrollTop = view.scroll;
      this.geometry = { axis: nx.frame.AXIS_HEIGHT, head: view.headHeight + (view.headHeight ? 3 : 0), height: nx.frame.AXIS_HEIGHT + view.headHeight + 3 + view.height };
      this.dirty.labels = true;
      this.invalidate();
    }

    invalidate() {
      if (this.dirty.frame || this.closed || !this.view) return;
      this.dirty.frame = true;
      requestAnimationFrame(() => this.draw());
    }

    draw() {
      this.dirty.frame = false;
      if (!this.alive()) return;
      const began = performance.now();
      const { view, palette, painter } = this;
      const dpr = window.devicePixelRatio || 1;
      this.tilesNow = view.tiles(dpr);
      const rows = view.visibleRows();
      painter.drawn = { single: 0, merged: 0, missing: 0 };
      this.axis = nx.drawAxis(this.axisCanvas, view, palette, dpr);
      this.anchor.textContent = this.axis.anchor ? nx.time(this.axis.anchor, Math.max(1, this.axis.step)) : "";
      const grid = this.axis.ticks.map(([t]) => Math.round(view.px(t) * dpr));
      if (view.headHeight) painter.rows(this.headCanvas, view.head, view.headHeight, 0, palette, dpr, this.tilesNow, grid);
      const single = painter.drawn.single;
      painter.rows(this.body, rows, view.height, view.scroll, palette, dpr, this.tilesNow, grid);
      this.singles = painter.drawn.single - single;
      this.minimap.draw(this.mapCanvas, view, palette, dpr);
      if (this.dirty.labels) {
        this.dirty.labels = false;
        nx.drawLabels(this.labels, this.headLabels, view, (lane) => this.toggleLane(lane));
      }
      nx.drawOverlay(this, dpr);
      const blocks = [...new Set([...view.head, ...rows].map((row) => row.block))];
      this.source.want(blocks, this.tilesNow.k, this.tilesNow.numbers, this.tilesNow.ahead);
      this.root.dataset.missing = String(painter.drawn.missing);
      this.settle();
      this.stats.frames++;
      this.stats.draw = performance.now() - began;
      if (painter.drawn.missing === 0 && !this.root.dataset.painted) {
        this.root.dataset.painted = String(Math.round(performance.now()));
      }
    }

    drawLegend() {
      const { categories, used } = this.meta;
      this.legend.replaceChildren(...used.map((c) => el("li", {}, el("span", { class: `tl-swatch tl-c-${categories[c].key} tl-mark-${categories[c].mark || "none"}` }), categories[c].label)),
        el("li", { title: "Several events narrower than a pixel; paler where less of it is covered" }, el("span", { class: "tl-swatch tl-swatch-merged" }), "merged"));
    }

    /** After the last change: count what is shown, and put the state into the address. */
    settle() {
      clearTimeout(this.settling);
      this.settling = setTimeout(() => {
        if (!this.alive()) return;
        this.keepState(false);
        this.countShown();
      }, 150);
      this.drawInfo();
    }

    drawInfo() {
      const { view } = this;
      const parts = [`${nx.duration(view.t1 - view.t0)} shown`];
      if (this.counted && this.counted.t0 === view.t0 && this.counted.t1 === view.t1) {
        parts.push(nx.plural(this.counted.events, "event"));
        const merged = Math.max(0, this.counted.events - this.singles);
        parts.push(merged ? `${nx.count(merged)} narrower than a pixel ${merged === 1 ? "is" : "are"} merged` : "none merged");
      }
      const text = parts.join(" · ");
      if (this.info.textContent !== text) this.info.textContent = text;
    }

    async countShown() {
      const view = { ...this.view, visibleRows: () => this.view.visibleRows() };
      const key = [view.t0, view.t1, view.scroll, view.height].join();
      if (this.counted && this.counted.key === key) return;
      const ranges = [];
      for (const { track } of view.visibleRows()) {
        const last = ranges[ranges.length - 1];
        if (last && last[1] === track - 1) last[1] = track;
        else ranges.push([track, track]);
      }
      if (!ranges.length) return;
      try {
        const answer = await this.source.ask("window", { t0: Math.floor(view.t0), t1: Math.ceil(view.t1), tracks: ranges.map((r) => r.join("-")).join() });
        this.counted = { key, t0: view.t0, t1: view.t1, events: answer.events };
        if (this.alive()) this.drawInfo();
      } catch (error) {
        this.trouble(error);
      }
    }

    trouble(error) {
      if (!this.alive()) return;
      const gone = error instanceof nx.Gone;
      const text = gone ? "The trace was replaced or removed since this page was opened." : error instanceof TypeError ? "The server does not answer. Is it still running?" : error.message;
      if (gone) this.source.gone = true;
      if (this.banner.hidden || this.banner.firstChild.textContent !== text) {
        this.banner.replaceChildren(el("span", {}, text), this.retryButton());
        this.banner.hidden = false;
      }
    }

    /* ---- the window ---- */

    changed(really) {
      if (really) {
        this.hover(null);
        this.invalidate();
      }
    }
    show(t0, t1) {
      this.changed(this.view.show(t0, t1));
    }
    zoom(factor, px) {
      this.changed(this.view.zoom(factor, px));
    }
    pan(px) {
      this.changed(this.view.pan(px));
    }
    centre(t) {
      const half = (this.view.t1 - this.view.t0) / 2;
      this.show(t - half, t + half);
    }
    scrollBy(px) {
      this.scroller.scrollTop += px;
    }
    fit() {
      if (this.span) return this.show(...this.span);
      if (!this.selected) return this.show(0, this.view.end);
      const { start, end } = this.selected;
      const margin = Math.max(32, (end - start) * 0.15);
      this.show(start - margin, end + margin);
      this.reveal(this.selected);
    }
    toggleLane(lane) {
      const { collapsed } = this.view;
      if (!collapsed.delete(lane)) collapsed.add(lane);
      this.view.arrange();
      this.arranged();
    }
    reveal(event) {
      const { view } = this;
      const lane = view.laneOf(event.track);
      if (!view.trackRow.has(event.track) && view.collapsed.has(lane)) this.toggleLane(lane);
      if (view.reveal(event.track)) this.scroller.scrollTop = view.scroll;
      const width = view.t1 - view.t0;
      if (event.end < view.t0 || event.start > view.t1) {
        const middle = event.end - event.start < width ? (event.start + event.end) / 2 : event.start + width * 0.4;
        this.centre(middle);
      }
      this.invalidate();
    }

    /* ---- selection ---- */

    target(at) {
      if (at.head) {
        return this.view.head.find((row) => at.y >= row.y && at.y < row.y + nx.geometry.ROW) || null;
      }
      return this.view.rowAt(at.y);
    }

    hit(row, x) {
      const { view } = this;
      const half = Math.max(1, view.nsPerPx * 1.5);
      const t = view.time(x);
      return this.source.ask("hit", { track: row.track, t: Math.floor(t), t0: Math.max(0, Math.floor(t - half)), t1: Math.ceil(t + half) });
    }

    async click(at) {
      const row = this.target(at);
      if (!row) return this.select(null);
      try {
        const { event, n } = await this.hit(row, at.x);
        if (this.alive()) this.select(event, { push: true, among: n });
      } catch (error) {
        this.trouble(error);
      }
    }

    hover(at) {
      clearTimeout(this.hoverTimer);
      const row = at && this.tilesNow ? this.target(at) : null;
      const entry = row ? this.painter.at(row, at.x, this.tilesNow) : null;
      const before = this.pointerAt;
      this.pointerAt = at ? at.x : null;
      if (before !== this.pointerAt && this.view) nx.drawOverlay(this, window.devicePixelRatio || 1);
      this.tip.hidden = !entry;
      if (!entry) return;
      const lines = [el("div", { class: "tl-tip-name" }, (this.source.name(entry.name) || "…").slice(0, 120))];
      const more = el("div", { class: "tl-tip-more" }, entry.count > 1 ? `the longest of ${entry.count >= 65535 ? "more than 65,535" : nx.count(entry.count)} events here; zoom in to see each` : this.meta.categories[entry.category].label);
      this.tip.replaceChildren(...lines, more);
      const box = this.stage.getBoundingClientRect();
      const area = (at.head ? this.headCanvas : this.body).getBoundingClientRect();
      const x = area.left - box.left + at.x + 14;
      const y = area.top - box.top + at.y + 16;
      this.tip.style.transform = `translate(${Math.round(Math.min(x, box.width - this.tip.offsetWidth - 8))}px, ${Math.round(Math.min(y, box.height - this.tip.offsetHeight - 4))}px)`;
      if (entry.count > 1) return;
      this.hoverTimer = setTimeout(async () => {
        try {
          const { event } = await this.hit(row, at.x);
          if (event && !this.tip.hidden && this.pointerAt === at.x) more.textContent = `${event.open ? "end not observed" : nx.duration(event.end - event.start)} · ${this.meta.categories[entry.category].label}`;
        } catch (error) {
          /* The tip keeps what is known without the server. */
        }
      }, 60);
    }

    /** Select an event (a brief), or nothing. */
    async select(event, options = {}) {
      this.selected = event;
      this.details = null;
      if (this.asking) this.asking.abort();
      this.invalidate();
      if (!event) {
        if (this.hits) this.panel.hits(this.hits, nx.filterLabel(this.filter));
        else this.panel.idle(this.meta);
        this.keepState(options.push);
        this.tell("timeline-selection", null);
        return;
      }
      this.panel.waiting(event);
      this.asking = new AbortController();
      try {
        const details = await this.source.ask("event", { row: event.row }, this.asking.signal);
        if (!this.alive() || this.selected !== event) return;
        this.details = details;
        this.selected = { ...event, id: details.id };
        this.panel.event(details);
        this.keepState(options.push);
        this.announce(details, options.among);
        this.invalidate();
        this.tell("timeline-selection", { id: details.id, name: details.name, file: details.file, line: details.line, step: details.step });
      } catch (error) {
        if (error.name === "AbortError") return;
        this.panel.failed(error.message);
        if (error instanceof nx.Gone) this.trouble(error);
      }
    }

    announce(d, among) {
      const what = d.kind === "op" || d.kind === "autograd" ? d.phase : d.kind;
      const where = d.file && d.line > 0 ? `${d.file.split("/").pop()} line ${d.line}` : "no source line";
      const long = d.duration < 0 ? "end not observed" : nx.duration(d.duration);
      const shared = among > 1 ? `, one of ${nx.count(among)} events in this pixel` : "";
      this.status.textContent = `${d.name.slice(0, 200)}, ${what || d.kind}, ${long}, ${where}, starts at ${nx.time(d.start, 1000)}, ${d.lane.name}, depth ${d.lane.depth}${shared}`;
    }

    /** Go to an event that a link, a list or a key names. */
    jump(brief, push = true) {
      const width = this.view.t1 - this.view.t0;
      const length = Math.max(1, brief.end - brief.start);
      if (length < width / 2000) {
        // Too small to be seen here: come close enough that it is.
        this.show(brief.start + length / 2 - length * 60, brief.start + length / 2 + length * 60);
      }
      this.reveal(brief);
      return this.select(brief, { push });
    }

    async walk(go) {
      const { view } = this;
      const at = this.selected;
      try {
        let query;
        if (go === "first") {
          const blocks = [...new Set(view.visibleRows().map((row) => row.block))].slice(0, 64);
          query = { go, t0: Math.floor(view.t0), t1: Math.ceil(view.t1), b: blocks.join() };
        } else {
          query = { go, track: at.track, start: at.start, row: at.row };
        }
        const { event } = await this.source.ask("walk", query);
        if (!this.alive()) return;
        if (event) await this.jump(event, false);
        else this.status.textContent = { next: "last event of this row", previous: "first event of this row", parent: "no parent event", child: "no child events", first: "no event in view" }[go];
      } catch (error) {
        this.trouble(error);
      }
    }

    /* ---- spans and marks ---- */

    async measure(t0, t1, done) {
      this.span = [Math.max(0, Math.min(t0, t1)), Math.min(this.view.end, Math.max(t0, t1))];
      this.invalidate();
      if (!done) return;
      const [a, b] = this.span;
      this.status.textContent = `span of ${nx.duration(b - a)}`;
      this.panel.span(a, b, null);
      const answer = await this.source.ask("window", { t0: Math.floor(a), t1: Math.ceil(b), tracks: `0-${this.meta.blocks.reduce((n, block) => Math.max(n, block[1] + block[2]), 1) - 1}` }).catch(() => null);
      if (answer && this.span && this.span[0] === a) this.panel.span(a, b, answer.events);
    }

    mark() {
      const span = this.span || (this.selected ? [this.selected.start, this.selected.end] : null);
      if (!span) {
        this.status.textContent = "select an event or measure a span to mark it";
        return;
      }
      const same = this.marks.findIndex((m) => Math.round(m[0]) === Math.round(span[0]) && Math.round(m[1]) === Math.round(span[1]));
      if (same >= 0) this.marks.splice(same, 1);
      else this.marks = [...this.marks, span].slice(-9);
      this.span = null;
      this.status.textContent = same >= 0 ? "mark removed" : `mark ${this.marks.length} set`;
      this.keepState(false);
      this.invalidate();
    }

    canEscape() {
      return Boolean(this.span || this.selected || Object.keys(this.filter).length);
    }
    escape() {
      if (this.span) {
        this.span = null;
        this.select(this.selected);
      } else if (this.selected) {
        this.select(null);
      } else {
        this.setFilter({});
      }
      this.invalidate();
    }

    /* ---- search ---- */

    search(text) {
      text = text.trim().slice(0, 500);
      this.setFilter(text ? { q: text } : {});
    }
    filterLine(file, line) {
      this.setFilter({ line: `${file}:${line}` });
    }

    /** Highlight what matches; {} highlights nothing. */
    async setFilter(filter, quiet = false) {
      this.filter = filter;
      this.hits = null;
      this.hitAt = null;
      this.source.filter = new URLSearchParams(filter).toString();
      this.source.marks.clear();
      this.found.hidden = !this.source.filter;
      if (!quiet) this.keepState(true);
      this.invalidate();
      if (!this.source.filter) {
        if (!this.selected) this.panel.idle(this.meta);
        return;
      }
      const label = nx.filterLabel(filter);
      this.drawFound(label, null);
      try {
        const answer = await this.source.ask("search", { ...filter, limit: 100 });
        if (!this.alive() || this.filter !== filter) return;
        this.hits = answer;
        this.drawFound(label, answer.count);
        this.status.textContent = `${nx.plural(answer.count, "match", "matches")} for ${label}`;
        if (!this.selected) this.panel.hits(answer, label);
      } catch (error) {
        this.trouble(error);
      }
    }

    drawFound(label, count) {
      const at = this.hitAt === null ? "" : `${nx.count(this.hitAt + 1)} of `;
      this.found.replaceChildren(
        el("span", { class: "tl-found-label", title: label }, label),
        el("span", { class: "tl-found-count" }, count === null ? "…" : at + nx.plural(count, "match", "matches")),
        el("button", { type: "button", class: "tl-button", title: "Previous match (Shift+N)", "aria-label": "Previous match", disabled: !count, onclick: () => this.nextHit(-1) }, "‹"),
        el("button", { type: "button", class: "tl-button", title: "Next match (N)", "aria-label": "Next match", disabled: !count, onclick: () => this.nextHit(1) }, "›"),
        el("button", { type: "button", class: "tl-button", title: "Drop the search (Escape)", onclick: () => this.setFilter({}) }, "Clear"));
    }

    async nextHit(direction) {
      if (!this.hits || !this.hits.count) return;
      const { count } = this.hits;
      try {
        const query = { ...this.filter, limit: 1 };
        if (this.hitAt === null) query.near = Math.floor(this.view.t0);
        else query.first = (this.hitAt + direction + count) % count;
        const answer = await this.source.ask("search", query);
        if (!this.alive() || !answer.hits.length) return;
        this.hitAt = answer.first;
        this.drawFound(nx.filterLabel(this.filter), count);
        await this.jump(answer.hits[0], false);
      } catch (error) {
        this.trouble(error);
      }
    }

    /* ---- the address, and Dash ---- */

    async applyState() {
      const state = nx.readState(window.location.search);
      const { view } = this;
      this.marks = state.marks;
      this.span = null;
      if (state.window) view.show(...state.window);
      else view.show(0, view.end);
      this.invalidate();
      if (JSON.stringify(state.filter) !== JSON.stringify(this.filter)) this.setFilter(state.filter, true);
      try {
        if (state.step !== null && !state.window) {
          const { hits } = await this.source.ask("search", { kind: "step", step: state.step, limit: 1 });
          if (hits.length) this.show(hits[0].start - (hits[0].end - hits[0].start) * 0.01, hits[0].end + (hits[0].end - hits[0].start) * 0.01);
          else this.status.textContent = `the trace has no step ${state.step}`;
        }
        if (state.event !== null) {
          if (this.selected && this.selected.id === state.event) return;
          const details = await this.source.ask("event", { id: state.event });
          if (!state.window && state.step === null) await this.jump(details, false);
          else {
            this.reveal(details);
            await this.select(details);
          }
        } else if (this.selected) {
          this.select(null);
        }
      } catch (error) {
        if (this.alive()) this.panel.failed(error.message);
      }
    }

    /** The state into the address; `push` makes it a step of the browser's history. */
    keepState(push) {
      const { view } = this;
      const whole = view.t0 <= 0 && view.t1 >= view.end;
      const pending = this.selected && !this.selected.id;
      if (pending) return; // its id comes with the details
      const search = nx.writeState(window.location.search, {
        filter: this.filter, window: whole ? null : [view.t0, view.t1], event: this.selected ? this.selected.id : null, marks: this.marks,
      });
      if (search === window.location.search) return;
      const url = window.location.pathname + search + window.location.hash;
      if (push) window.history.pushState(window.history.state, "", url);
      else window.history.replaceState(window.history.state, "", url);
      clearTimeout(this.telling);
      this.telling = setTimeout(() => this.alive() && this.tell("timeline-window", { from: Math.floor(view.t0), to: Math.ceil(view.t1) }), 200);
    }

    tell(id, data) {
      const dash = window.dash_clientside;
      if (dash && dash.set_props && document.getElementById(this.root.id)) dash.set_props(id, { data });
    }

    toggleHelp() {
      if (this.helpNode) {
        this.helpNode.remove();
        this.helpNode = null;
        this.stage.focus({ preventScroll: true });
        return;
      }
      this.helpNode = nx.help(() => this.toggleHelp());
      this.root.append(this.helpNode);
      this.helpNode.querySelector(".tl-button").focus();
    }
  }

  nx.remount = function (root) {
    if (root.nxApp) root.nxApp.close();
    root.nxApp = null;
    delete root.dataset.painted;
    root.nxApp = new Timeline(root);
    nx.current = root.nxApp;
  };

  /** Dash calls this when the page's root has been drawn. */
  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.nxTimeline = {
    mount: function (id) {
      const root = document.getElementById(id);
      if (root && !root.nxApp) nx.remount(root);
      return window.dash_clientside.no_update;
    },
  };
})();
