/* Steps above each other on one axis: on Compare both from where they begin, on Ranks those of several ranks on one
   clock. Asks for what is in the window, since a reply holds the longest spans only. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const GUTTER = 132;
  const AXIS = 22;
  const HEAD = 22;
  const ROW = 17;
  const BAR = 15;
  const GAP = 8;
  const LABEL_WIDTH = 34;
  const MIN_WINDOW = 200; // ns
  const WAIT = 160; // ms of rest before the window is asked for again
  const FACE = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";
  const OTHERS = 10;
  const NO_PLACE = 11;

  /** Draws on a canvas. */
  class CanvasPen {
    constructor(ctx) { this.ctx = ctx; }
    rect(x, y, w, h, colour) { this.ctx.fillStyle = colour; this.ctx.fillRect(x, y, w, h); }
    frame(x, y, w, h, colour) { this.ctx.strokeStyle = colour; this.ctx.strokeRect(x + 0.5, y + 0.5, Math.max(w - 1, 1), h - 1); }
    text(x, y, text, colour, most, bold) {
      this.ctx.font = `${bold ? "600 " : ""}11px ${FACE}`;
      this.ctx.fillStyle = colour;
      this.ctx.fillText(fitting(this.ctx, text, most), x, y);
    }
  }

  /** Writes SVG. */
  class SvgPen {
    constructor(ctx) { this.ctx = ctx; this.parts = []; }
    rect(x, y, w, h, colour) { this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${colour}"/>`); }
    frame(x, y, w, h, colour) { this.parts.push(`<rect x="${short(x + 0.5)}" y="${short(y + 0.5)}" width="${short(Math.max(w - 1, 1))}" height="${short(h - 1)}" fill="none" stroke="${colour}"/>`); }
    text(x, y, text, colour, most, bold) {
      this.ctx.font = `${bold ? "600 " : ""}11px ${FACE}`;
      const shown = fitting(this.ctx, text, most);
      if (shown) this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="11"${bold ? ' font-weight="600"' : ""} font-family="${FACE.replace(/"/g, "")}" fill="${colour}">${escaped(shown)}</text>`);
    }
  }

  const short = (value) => (Math.round(value * 100) / 100).toString();
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;").replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");

  /** As much of a text as fits, nothing where that would not be a word. */
  function fitting(ctx, text, most) {
    if (ctx.measureText(text).width <= most) return text;
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (ctx.measureText(text.slice(0, middle) + "…").width <= most) low = middle;
      else high = middle - 1;
    }
    return low > 1 ? text.slice(0, low) + "…" : "";
  }

  class StepPair {
    constructor(root, words) {
      this.root = root;
      this.words = words;
      this.canvas = el("canvas", { class: "pair-canvas", tabindex: "0", role: "img", "aria-label": `${words.label} W and S zoom, A and D pan, Home shows all.` });
      this.about = el("p", { class: "pair-about", role: "status" });
      this.legend = el("ul", { class: "pair-legend" });
      this.tip = el("div", { class: "pair-tip", role: "tooltip", hidden: true });
      root.replaceChildren(el("div", { class: "pair-stage" }, this.canvas, this.tip), this.about, this.legend);
      this.hover = null;
      this.kept = -1; // the place that a click keeps in sight
      this.asked = 0;
      this.pointer = null;
      root.nxDrawing = () => this.drawing();
      this.listen();
      this.say(words.reading);
      this.ask(null);
    }

    say(text) { this.about.textContent = text; }

    ask(window_) {
      const url = new URL(this.root.dataset.url, window.location.href);
      if (window_) {
        url.searchParams.set("t0", Math.floor(window_[0]));
        url.searchParams.set("t1", Math.ceil(window_[1]));
      }
      const number = ++this.asked;
      fetch(url).then((reply) => reply.json().then((data) => {
        if (!reply.ok) throw new Error(data.error || "no answer");
        return data;
      })).then((data) => {
        if (number !== this.asked || !this.root.isConnected) return;
        const text = this.kept >= 0 ? this.data.places[this.kept].text : null;
        this.data = data;
        this.covered = window_;
        this.hover = null;
        this.lit = undefined;
        this.kept = text === null ? -1 : data.places.findIndex((place) => place.text === text); // numbers are a reply's
        if (!window_) { this.end = data.whole; this.t0 = 0; this.t1 = data.whole; }
        this.layout();
        this.draw();
        this.tell();
      }, (error) => { if (number === this.asked) this.say("The steps cannot be shown: " + error.message); });
    }

    layout() {
      let y = AXIS;
      this.places = [];
      this.data.sides.forEach((side) => {
        const top = y;
        y += HEAD;
        const lanes = side.lanes.map((lane) => { const at = y; y += lane.rows * ROW + GAP; return at; });
        if (!side.lanes.length) y += ROW;
        this.places.push({ top, lanes, bottom: y });
        y += 6;
      });
      this.height = y;
    }

    tell() {
      const left = this.data.sides.reduce((sum, side) => sum + side.left, 0);
      const parts = [];
      if (left) parts.push(`${nx.plural(left, "shorter or deeper span")} in this window not drawn: zoom in.`);
      parts.push(this.words.colours + " W and S zoom, A and D pan, Home shows all, a click keeps a place in sight.");
      this.say(parts.join(" "));
      const ranked = this.data.places.map((place, at) => [place, at]).filter(([place]) => place.class < OTHERS).sort((a, b) => a[0].class - b[0].class);
      this.legend.replaceChildren(...ranked.map(([place, at]) => {
        const swatch = el("span", { class: `pair-swatch pair-class-${place.class}` });
        const button = el("button", { type: "button", class: "pair-key", "aria-pressed": at === this.kept ? "true" : "false", title: place.function }, swatch, el("span", { class: "mono" }, place.text), el("span", { class: "muted" }, ` ${sums(place)}`));
        button.addEventListener("click", () => { this.keep(at); button.setAttribute("aria-pressed", this.kept === at ? "true" : "false"); });
        button.addEventListener("mouseenter", () => { this.lit = at; this.draw(); });
        button.addEventListener("mouseleave", () => { this.lit = undefined; this.draw(); });
        return el("li", {}, button);
      }));
    }

    keep(at) {
      this.kept = this.kept === at ? -1 : at;
      this.legend.querySelectorAll("[aria-pressed=true]").forEach((each) => each.setAttribute("aria-pressed", "false"));
      this.draw();
    }

    colours() {
      const style = getComputedStyle(this.root);
      const read = (name) => nx.rgb(style.getPropertyValue(name) || "#888888");
      const surface = read("--surface");
      const classes = [];
      for (let n = 0; n < 10; n++) classes.push(read("--tl-by-" + n));
      classes.push(read("--tl-by-others"), nx.mix(read("--tl-by-others"), surface, 0.45));
      return { classes, surface, text: read("--text"), muted: read("--text-2"), line: read("--line"), inset: read("--inset"), problem: read("--problem") };
    }

    get width() { return Math.max(240, this.root.clientWidth); }
    get plot() { return this.width - GUTTER - 6; }
    x(t) { return GUTTER + ((t - this.t0) / (this.t1 - this.t0)) * this.plot; }
    time(x) { return this.t0 + ((x - GUTTER) / this.plot) * (this.t1 - this.t0); }

    draw() {
      if (!this.data) return;
      const dpr = window.devicePixelRatio || 1;
      const ctx = nx.fitCanvas(this.canvas, this.width, this.height, dpr);
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      this.paint(new CanvasPen(ctx), ctx);
    }

    drawing() {
      if (!this.data) return null;
      const pen = new SvgPen(document.createElement("canvas").getContext("2d"));
      this.paint(pen, pen.ctx);
      return { width: this.width, height: this.height, text: `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}">${pen.parts.join("")}</svg>` };
    }

    paint(pen, ctx) {
      const c = this.colours();
      const css = nx.css;
      const right = GUTTER + this.plot;
      pen.rect(0, 0, this.width, this.height, css(c.surface));
      const { ticks } = nx.ticks(this.t0, this.t1, this.plot, 110);
      for (const [t, label] of ticks) {
        pen.rect(this.x(t), AXIS - 4, 1, this.height - AXIS, css(c.line));
        pen.text(this.x(t) + 4, 13, label, css(c.muted), Math.min(96, right - this.x(t) - 6));
      }
      const lit = this.lit !== undefined ? this.lit : this.hover && this.hover.place >= 0 ? this.hover.place : this.kept;
      this.data.sides.forEach((side, s) => {
        const { top, lanes, bottom } = this.places[s];
        const begins = this.x(side.begin || 0);
        const ends = this.x(side.end === undefined ? side.duration : side.end);
        if (begins > GUTTER) pen.rect(GUTTER, top + HEAD - 2, Math.min(begins, right) - GUTTER, bottom - top - HEAD, css(c.inset));
        if (ends < right) pen.rect(Math.max(ends, GUTTER), top + HEAD - 2, right - Math.max(ends, GUTTER), bottom - top - HEAD, css(c.inset));
        const which = side.step === null ? "the run" : `step ${side.step}`;
        pen.rect(0, top - 1, this.width, 1, css(c.line));
        pen.text(4, top + 14, side.title || `${s ? "After" : "Before"}: ${side.name}, ${which}, ${nx.duration(side.duration)}`, css(c.text), this.width - 10, true);
        side.lanes.forEach((lane, l) => pen.text(4, lanes[l] + 12, lane.name, css(c.muted), GUTTER - 12));
        if (!side.lanes.length) pen.text(GUTTER + 4, top + HEAD + 11, "nothing was recorded in this step", css(c.muted), this.plot);
        this.spans(pen, ctx, c, side, lanes, lit, s);
        if (ends >= GUTTER && ends <= right) pen.rect(ends, top + HEAD - 2, 1.5, bottom - top - HEAD, css(c.problem));
      });
    }

    spans(pen, ctx, c, side, lanes, lit, s) {
      const { lane, row, start, duration, name, place, kind } = side.spans;
      const right = GUTTER + this.plot;
      for (let i = 0; i < lane.length; i++) {
        let x0 = this.x(start[i]);
        let x1 = this.x(start[i] + duration[i]);
        if (x1 < GUTTER || x0 > right) continue;
        x0 = Math.max(x0, GUTTER);
        x1 = Math.min(Math.max(x1, x0 + 1), right);
        const p = place[i] >= 0 ? this.data.places[place[i]] : null;
        let colour = c.classes[p ? p.class : NO_PLACE];
        if (kind[i]) colour = nx.mix(colour, c.surface, 0.4); // a range is around others
        if (lit >= 0 && place[i] !== lit) colour = nx.mix(colour, c.surface, 0.25);
        const y = lanes[lane[i]] + row[i] * ROW;
        const w = Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 0.5 : 0));
        pen.rect(x0, y, w, BAR, nx.css(colour));
        if (p && (p.how === "added" || p.how === "removed") && w > 3) pen.frame(x0, y, w, BAR, nx.css(c.text));
        if (x1 - x0 >= LABEL_WIDTH) pen.text(x0 + 4, y + 11, nx.shortName(this.data.names[name[i]]), nx.luminance(colour) < 0.2 ? "#ffffff" : "#16181d", x1 - x0 - 8);
        if (this.hover && this.hover.side === s && this.hover.at === i) pen.frame(x0, y, w, BAR, nx.css(c.text));
      }
    }

    /** The span at a point: the innermost. */
    hit(px, py) {
      if (!this.data || px < GUTTER) return null;
      const t = this.time(px);
      const slack = (this.t1 - this.t0) / this.plot;
      for (let s = 0; s < this.data.sides.length; s++) {
        const side = this.data.sides[s];
        for (let l = 0; l < side.lanes.length; l++) {
          const row = Math.floor((py - this.places[s].lanes[l]) / ROW);
          if (row < 0 || row >= side.lanes[l].rows) continue;
          const { lane, row: rows, start, duration, place } = side.spans;
          for (let at = lane.length - 1; at >= 0; at--) {
            if (lane[at] === l && rows[at] === row && start[at] <= t && t <= start[at] + Math.max(duration[at], slack)) return { side: s, at, place: place[at] };
          }
        }
      }
      return null;
    }

    point(event) {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }

    showTip(px, py) {
      if (!this.hover) { this.tip.hidden = true; return; }
      const { side, at, place } = this.hover;
      const spans = this.data.sides[side].spans;
      const p = place >= 0 ? this.data.places[place] : null;
      const lines = [el("b", {}, this.data.names[spans.name[at]]), el("div", {}, `${this.words.side(this.data.sides[side], side)}: ${nx.duration(spans.duration[at])}, ${nx.duration(spans.start[at] - (this.data.sides[side].begin || 0))} into the step`)];
      if (p) {
        lines.push(el("div", { class: "mono" }, `${p.text}${p.function ? " in " + p.function : ""}`), el("div", {}, `this line in the step: ${sums(p)}`));
        if (p.how !== "same") lines.push(el("div", { class: "muted" }, p.how === "added" ? "only after" : p.how === "removed" ? "only before" : `matched: ${p.how}`));
      } else lines.push(el("div", { class: "muted" }, "no line of your code"));
      this.tip.replaceChildren(...lines);
      this.tip.hidden = false;
      const width = this.tip.offsetWidth;
      this.tip.style.left = Math.max(0, Math.min(px + 14, this.width - width)) + "px";
      this.tip.style.top = py + 16 + "px";
    }

    show(t0, t1) {
      const least = Math.min(MIN_WINDOW, this.end);
      const span = Math.max(least, Math.min(t1 - t0, this.end));
      const start = Math.max(0, Math.min((t0 + t1) / 2 - span / 2, this.end - span));
      if (start === this.t0 && start + span === this.t1) return;
      this.t0 = start;
      this.t1 = start + span;
      this.hover = null;
      this.tip.hidden = true;
      this.draw();
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.refill(), WAIT);
    }

    /** Ask for the window where the present reply does not hold all of it. */
    refill() {
      const whole = this.t0 <= 0 && this.t1 >= this.end;
      const cut = this.data.sides.some((side) => side.left);
      const inside = !this.covered || (this.t0 >= this.covered[0] && this.t1 <= this.covered[1]);
      if (inside && !cut) return;
      this.ask(whole ? [0, this.end] : [this.t0, this.t1]);
    }

    zoom(factor, px) {
      const at = this.time(px === undefined ? GUTTER + this.plot / 2 : Math.max(GUTTER, px));
      const span = Math.min((this.t1 - this.t0) * factor, this.end);
      const share = (at - this.t0) / (this.t1 - this.t0);
      this.show(at - share * span, at + (1 - share) * span);
    }

    pan(share) {
      const move = share * (this.t1 - this.t0);
      this.show(this.t0 + move, this.t1 + move);
    }

    listen() {
      const { canvas } = this;
      canvas.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !this.data) return;
        const px = this.pointer ? this.pointer[0] : undefined;
        const act = { w: () => this.zoom(0.6, px), s: () => this.zoom(1 / 0.6, px), "+": () => this.zoom(0.6, px), "-": () => this.zoom(1 / 0.6, px),
          a: () => this.pan(-0.2), d: () => this.pan(0.2), arrowleft: () => this.pan(-0.2), arrowright: () => this.pan(0.2), home: () => this.show(0, this.end),
          escape: () => { this.kept = -1; this.keep(-1); } }[event.key.toLowerCase()];
        if (!act) return;
        event.preventDefault();
        act();
      });
      canvas.addEventListener("wheel", (event) => {
        if (!this.data || !(event.ctrlKey || event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
        event.preventDefault();
        if (event.ctrlKey) this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))), this.point(event)[0]);
        else this.pan((event.deltaX || event.deltaY) / this.plot);
      }, { passive: false });
      canvas.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !this.data) return;
        canvas.setPointerCapture(event.pointerId);
        this.drag = { x: event.clientX, t0: this.t0, t1: this.t1, moved: false };
      });
      canvas.addEventListener("pointermove", (event) => {
        if (!this.data) return;
        const [px, py] = (this.pointer = this.point(event));
        if (this.drag) {
          const by = event.clientX - this.drag.x;
          if (Math.abs(by) > 3) this.drag.moved = true;
          if (this.drag.moved) { const move = (-by / this.plot) * (this.drag.t1 - this.drag.t0); this.show(this.drag.t0 + move, this.drag.t1 + move); }
          return;
        }
        const found = this.hit(px, py);
        if ((found && found.at) !== (this.hover && this.hover.at) || (found && found.side) !== (this.hover && this.hover.side)) { this.hover = found; this.draw(); }
        this.showTip(px, py);
      });
      canvas.addEventListener("pointerup", (event) => {
        const drag = this.drag;
        this.drag = null;
        if (!drag || drag.moved) return;
        const found = this.hit(...this.point(event));
        this.keep(found && found.place >= 0 ? found.place : -1);
      });
      canvas.addEventListener("pointerleave", () => { this.pointer = null; if (this.hover) { this.hover = null; this.draw(); } this.tip.hidden = true; });
      new ResizeObserver(() => this.draw()).observe(this.root);
      new MutationObserver(() => this.draw()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    }
  }

  /** "1.2 ms (3 launches) → 1.4 ms (3)" of a line; of ranks the least and the most. */
  function sums(place) {
    const side = (cost) => (cost ? `${nx.duration(cost[0])} (${nx.count(cost[1])}×)` : "not there");
    if (place.each) {
      const there = place.each.filter(Boolean).sort((a, b) => a[0] - b[0]);
      if (!there.length) return "no time of its own";
      const [least, most] = [there[0], there[there.length - 1]];
      return least[0] === most[0] ? side(most) : `${nx.duration(least[0])} to ${side(most)}`;
    }
    return `${side(place.before)} → ${side(place.after)}`;
  }

  const PAIR = {
    label: "Both steps on one axis.",
    reading: "Reading both steps …",
    colours: "Colours are places: the ten that cost most, the same on both sides; framed: only on one side.",
    side: (side, at) => (at ? "after" : "before"),
  };
  const RANKS = {
    label: "A step of several ranks on one clock.",
    reading: "Reading the ranks …",
    colours: "Colours are places: the ten that cost most, the same on every rank.",
    side: (side) => `rank ${side.rank}`,
  };

  const clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.nxCompare = {
    mount() {
      const root = document.getElementById("compare-timeline");
      if (root && !root.nxDrawing) new StepPair(root, PAIR);
      return window.dash_clientside.no_update;
    },
  };
  clientside.nxRanks = {
    mount() {
      const root = document.getElementById("ranks-timeline");
      if (root && !root.nxDrawing) new StepPair(root, RANKS);
      return window.dash_clientside.no_update;
    },
    /* Says how many ranks were read, and draws the page again when all are. */
    wait() {
      const said = document.getElementById("ranks-reading");
      if (said && !said.nxWaiting) {
        said.nxWaiting = true;
        const ask = () => fetch(said.dataset.url).then((reply) => reply.json()).then((state) => {
          if (!said.isConnected) return;
          if (state.ready || state.error) { window.location.reload(); return; }
          said.textContent = `${nx.count(state.done)} of ${nx.plural(state.of, "rank")} read`;
          setTimeout(ask, 700);
        }, () => { if (said.isConnected) setTimeout(ask, 2000); });
        setTimeout(ask, 500);
      }
      return window.dash_clientside.no_update;
    },
  };
})();
