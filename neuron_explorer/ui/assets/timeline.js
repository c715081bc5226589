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
      this.shade = null; // the steps that the address asks for: [start, end]
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
      this.colours = el("select", { class: "tl-field", "aria-label": "Colour by", onchange: () => this.colourBy(this.colours.value) },
        ...Object.entries(nx.COLOURS).map(([key, text]) => el("option", { value: key }, "by " + text)));
      this.lanesOpener = el("button", { type: "button", class: "tl-button", "aria-expanded": "false", title: "Filter, group, pin, order and fold lanes (L)", onclick: () => this.toggleLanes() }, "Lanes");
      this.toolbar.append(this.lanesOpener, this.colours, this.legend, this.found);
      this.mapCanvas = el("canvas", { class: "tl-map", "aria-hidden": "true" });
      this.axisCanvas = el("canvas", { class: "tl-axis", "aria-hidden": "true" });
      this.headCanvas = el("canvas", { class: "tl-head-canvas", "aria-hidden": "true" });
      // The canvas is as high as the lanes in sight; what lies below them takes the pointer, too.
      this.body = el("canvas", { "aria-hidden": "true" });
      this.area = el("div", { class: "tl-body" }, this.body);
      this.headCanvas.nxOpaque = this.body.nxOpaque = true;
      this.overlay = el("canvas", { class: "tl-overlay", "aria-hidden": "true" });
      this.labels = el("div", { class: "tl-labels" });
      this.headLabels = el("div", { class: "tl-head-labels" });
      this.anchor = el("div", { class: "tl-anchor" });
      this.sticky = el("div", { class: "tl-sticky" }, this.labels, this.area);
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
      const inner = el("div", { class: "tl-panel-inner" });
      this.panelNode = el("aside", { class: "card tl-panel", "aria-label": "Event" }, inner);
      this.root.replaceChildren(this.main, this.panelNode, this.status);
      this.panel = new nx.Panel(this, inner);
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
      this.counters = new nx.Counters(this.source, this.meta);
      this.minimap = new nx.Minimap(this.meta);
      this.palette = new nx.Palette(this.root, this.meta.categories, this.source.colour);
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
        this.palette = new nx.Palette(this.root, this.meta.categories, this.source.colour);
        if (this.source.colour !== "kind") this.drawClasses();
        this.invalidate();
      }, { signal });
      window.addEventListener("popstate", () => this.applyState(), { signal });
      // The shell moves the address like this when a filter of all pages is set.
      window.addEventListener("_dashprivate_pushstate", () => {
        if (/\/timeline\/?$/.test(window.location.pathname)) this.readScope(true);
        else this.source.release(); // another page comes: its tiles are of no use there
      }, { signal });
      this.watchRatio();
      this.resize();
      this.applyState();
    }

    /** Draw anew where the window comes to a screen with other pixels: no size changes then. */
    watchRatio() {
      const ratio = window.matchMedia(`(resolution: ${window.devicePixelRatio || 1}dppx)`);
      ratio.addEventListener("change", () => {
        this.invalidate();
        this.watchRatio();
      }, { once: true, signal: this.abort.signal });
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
      this.geometry = { axis: nx.frame.AXIS_HEIGHT, head: view.headHeight + (view.headHeight ? 3 : 0), height: nx.frame.AXIS_HEIGHT + view.headHeight + 3 + Math.min(view.height, view.total) };
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
      painter.rows(this.body, rows, Math.max(1, Math.min(view.height, view.total - view.scroll)), view.scroll, palette, dpr, this.tilesNow, grid);
      this.singles = painter.drawn.single;
      const counters = view.visibleCounters();
      if (counters.length) {
        for (const row of counters) this.counters.draw((row.head ? this.headCanvas : this.body).getContext("2d"), row, view, this.tilesNow, palette);
        this.counters.want(this.tilesNow.k, this.tilesNow.numbers, counters);
      }
      this.minimap.draw(this.mapCanvas, view, palette, dpr, this.hits, this.shade);
      if (this.dirty.labels) {
        this.dirty.labels = false;
        nx.drawLabels(this.labels, this.headLabels, this);
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
        setTimeout(() => !this.closed && this.source.ask("warm", {}).catch(() => {}), 400);
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
      const { view } = this;
      const shown = [...view.head.filter((row) => row.pinned), ...view.visibleRows()].map((row) => row.track).sort((a, b) => a - b);
      const key = [view.t0, view.t1, view.scroll, view.height, view.rows.length, view.head.length].join();
      if (this.counted && this.counted.key === key) return;
      const { t0, t1 } = view;
      const ranges = [];
      for (const track of shown) {
        const last = ranges[ranges.length - 1];
        if (last && last[1] === track - 1) last[1] = track;
        else ranges.push([track, track]);
      }
      if (!ranges.length) return;
      try {
        const answer = await this.source.ask("window", { t0: Math.floor(t0), t1: Math.ceil(t1), tracks: ranges.slice(0, 256).map((r) => r.join("-")).join() });
        this.counted = { key, t0, t1, events: answer.events };
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
    reveal(event) {
      const { view } = this;
      if (!view.trackRow.has(event.track)) this.bringOut(event.track);
      if (view.reveal(event.track)) this.scroller.scrollTop = view.scroll;
      const width = view.t1 - view.t0;
      if (event.end < view.t0 || event.start > view.t1) {
        const middle = event.end - event.start < width ? (event.start + event.end) / 2 : event.start + width * 0.4;
        this.centre(middle);
      }
      this.invalidate();
    }

    /** Show the row of an event that a fold, a pinned lane's bound or the filter of lanes hides. */
    bringOut(track) {
      const { view } = this;
      const lane = this.meta.lanes[view.laneOf(track)];
      if (!lane || lane.kind === "steps") return;
      const key = String(lane.lane);
      if (view.lanes.folded(key)) view.lanes.fold(key, false);
      view.arrange();
      if (!view.trackRow.has(track) && view.lanes.pinned(key)) view.lanes.pin(key);
      view.arrange();
      if (!view.trackRow.has(track)) view.lanes.filter = "";
      this.lanesChanged();
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

  for (const part of nx.parts) Object.defineProperties(Timeline.prototype, Object.getOwnPropertyDescriptors(part));

  nx.remount = function (root) {
    for (const old of [root.nxApp, nx.current]) if (old) old.close();
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
