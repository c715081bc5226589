/* Timeline: selecting events, spans and marks. Methods of the component in timeline.js. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const MOST_STEPS = 8; // a key that is held down must not go on long after it was released

  (nx.parts = nx.parts || []).push({
    /* ---- selection ---- */

    target(at) {
      if (at.head) {
        return this.view.head.find((row) => at.y >= row.y && at.y < row.y + nx.geometry.ROW) || null;
      }
      return this.view.rowAt(at.y);
    },

    hit(row, x) {
      const { view } = this;
      const half = Math.max(1, view.nsPerPx * 1.5);
      const t = view.time(x);
      return this.source.ask("hit", { track: row.track, t: Math.floor(t), t0: Math.max(0, Math.floor(t - half)), t1: Math.ceil(t + half) });
    },

    async click(at) {
      const row = this.target(at);
      if (!row) return this.select(null);
      try {
        const { event, n } = await this.hit(row, at.x);
        if (!this.alive()) return;
        const other = row.only !== undefined && event && event.category !== this.meta.categories[row.only].key;
        this.select(other ? null : event, { push: true, among: n });
      } catch (error) {
        this.trouble(error);
      }
    },

    hover(at) {
      clearTimeout(this.hoverTimer);
      const row = at && this.tilesNow ? this.target(at) : null;
      const entry = row ? this.painter.at(row, at.x, this.tilesNow) : null;
      const before = this.pointerAt;
      this.pointerAt = at ? at.x : null;
      if (before !== this.pointerAt && this.view) nx.drawOverlay(this, window.devicePixelRatio || 1);
      const counter = at && !row && this.tilesNow ? this.view.counterAt(at.y, at.head) : null;
      this.tip.hidden = !entry && !counter;
      if (counter) {
        const value = this.counters.valueAt(counter.series, this.view.time(at.x), this.view, this.tilesNow);
        this.tip.replaceChildren(el("div", { class: "tl-tip-name" }, value === null ? "no sample yet" : nx.amount(value, this.meta.series[counter.series].unit)), el("div", { class: "tl-tip-more" }, this.meta.series[counter.series].name));
        this.placeTip(at);
      }
      if (!entry) return;
      const lines = [el("div", { class: "tl-tip-name" }, (this.source.name(entry.name) || "…").slice(0, 120))];
      const more = el("div", { class: "tl-tip-more" }, entry.count > 1 ? `the longest of ${entry.count >= 65535 ? "more than 65,535" : nx.count(entry.count)} events here; zoom in to see each` : this.meta.categories[entry.category].label);
      this.tip.replaceChildren(...lines, more);
      this.placeTip(at);
      if (entry.count > 1) return;
      this.hoverTimer = setTimeout(async () => {
        try {
          const { event } = await this.hit(row, at.x);
          if (event && !this.tip.hidden && this.pointerAt === at.x) more.textContent = `${event.open ? "end not observed" : nx.duration(event.end - event.start)} · ${this.meta.categories[entry.category].label}`;
        } catch (error) {
          /* The tip keeps what is known without the server. */
        }
      }, 60);
    },

    placeTip(at) {
      const box = this.stage.getBoundingClientRect();
      const area = (at.head ? this.headCanvas : this.body).getBoundingClientRect();
      const x = area.left - box.left + at.x + 14;
      const y = area.top - box.top + at.y + 16;
      this.tip.style.transform = `translate(${Math.round(Math.min(x, box.width - this.tip.offsetWidth - 8))}px, ${Math.round(Math.min(y, box.height - this.tip.offsetHeight - 4))}px)`;
    },

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
        this.panel.event(details, options.among);
        this.keepState(options.push);
        this.announce(details, options.among);
        this.invalidate();
        this.tell("timeline-selection", { id: details.id, name: details.name, file: details.file, line: details.line, step: details.step });
      } catch (error) {
        if (error.name === "AbortError") return;
        this.panel.failed(error.message);
        if (error instanceof nx.Gone) this.trouble(error);
      }
    },

    announce(d, among) {
      const what = d.kind === "op" || d.kind === "autograd" ? d.phase : d.kind;
      const where = d.file && d.line > 0 ? `${d.file.split("/").pop()} line ${d.line}` : "no source line";
      const long = d.duration < 0 ? "end not observed" : nx.duration(d.duration);
      const shared = among > 1 ? `, one of ${nx.count(among)} events in this pixel` : "";
      this.status.textContent = `${d.name.slice(0, 200)}, ${what || d.kind}, ${long}, ${where}, starts at ${nx.time(d.start, 1000)}, ${d.lane.name}, depth ${d.lane.depth}${shared}`;
    },

    /** Go to an event that a link, a list or a key names. */
    jump(brief, push = true) {
      const width = this.view.t1 - this.view.t0;
      const length = Math.max(1, brief.end - brief.start);
      if (length < width / 2000 && brief.end > brief.start) {
        // Too small to be seen here: come close enough that it is. (An instant never is longer; it is a stroke.)
        this.show(brief.start + length / 2 - length * 60, brief.start + length / 2 + length * 60);
      }
      this.reveal(brief);
      return this.select(brief, { push });
    },

    /** Keys pressed faster than the server answers are taken one after another, each from where the last one led. */
    walk(go) {
      if (this.steps > MOST_STEPS) return this.walking;
      this.steps = (this.steps || 0) + 1;
      this.walking = (this.walking || Promise.resolve()).then(() => this.walkOne(go)).finally(() => { this.steps -= 1; });
      return this.walking;
    },

    async walkOne(go) {
      if (!this.alive() || (go !== "first" && !this.selected)) return;
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
        if (event) this.jump(event, false); // its details may come later: the next step needs only where it is
        else this.status.textContent = { next: "last event of this row", previous: "first event of this row", parent: "no parent event", child: "no child events", first: "no event in view" }[go];
      } catch (error) {
        this.trouble(error);
      }
    },

    /* ---- spans and marks ---- */

    async measure(t0, t1, done) {
      this.span = [Math.max(0, Math.min(t0, t1)), Math.min(this.view.end, Math.max(t0, t1))];
      this.invalidate();
      if (!done) return;
      const [a, b] = this.span;
      this.status.textContent = `span of ${nx.duration(b - a)}`;
      this.panel.span(a, b, null);
      this.keepState(false);
      const times = { t0: Math.floor(a), t1: Math.ceil(b) };
      const answers = {};
      let events = null;
      const known = (put) => (answer) => {
        put(answer);
        if (this.alive() && this.span && this.span[0] === a && this.span[1] === b) this.panel.span(a, b, events, answers);
      };
      const tracks = `0-${this.meta.blocks.reduce((n, block) => Math.max(n, block[1] + block[2]), 1) - 1}`;
      await Promise.all([
        this.source.ask("window", { ...times, tracks }).then(known((answer) => (events = answer.events))),
        this.source.ask("span", { ...times, by: "op" }).then(known((answer) => (answers.op = answer.groups))),
        this.source.ask("span", { ...times, by: "line" }).then(known((answer) => (answers.line = answer.groups))),
      ]).catch((error) => this.trouble(error));
    },

    /** The selected event's time as a span, of which the panel says what is in it. */
    spanOfSelection() {
      if (this.selected) this.measure(this.selected.start, Math.max(this.selected.end, this.selected.start + 1), true);
      else this.status.textContent = "select an event to measure it";
    },

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
    },

    canEscape() {
      return Boolean(this.span || this.selected || Object.keys(this.filter).length);
    },
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
    },
  });
})();
