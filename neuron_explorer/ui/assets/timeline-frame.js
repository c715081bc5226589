/* Timeline: what lies around the slices: the minimap, the time axis, and the lane labels. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const MAP_HEIGHT = 34;
  const AXIS_HEIGHT = 20;
  const SMALL = "10px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";
  nx.frame = { MAP_HEIGHT, AXIS_HEIGHT };

  /** Where phases differ the bars are stacked in this order, from below. */
  const STACK = ["forward", "backward", "recompute", "optimizer"];

  nx.Minimap = class {
    constructor(meta) {
      this.meta = meta;
      const size = Object.values(meta.minimap)[0];
      this.bins = size ? size.length : 0;
      this.order = [...meta.used].sort((a, b) => rank(meta.categories[a].key) - rank(meta.categories[b].key));
    }

    /** The bars (cached, they change with width and theme) and the window over them. */
    draw(canvas, view, palette, dpr, hits, shade) {
      const width = view.width;
      const ctx = nx.fitCanvas(canvas, width, MAP_HEIGHT, dpr);
      if (!this.bars || this.bars.width !== canvas.width || this.palette !== palette) {
        this.bars = document.createElement("canvas");
        this.palette = palette;
        this.paintBars(nx.fitCanvas(this.bars, width, MAP_HEIGHT, dpr), width, palette, dpr);
      }
      ctx.setTransform(1, 0, 0, 1, 0, 0);
      ctx.clearRect(0, 0, canvas.width, canvas.height);
      ctx.drawImage(this.bars, 0, 0);
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      nx.drawShade(ctx, shade, (t) => (t / view.end) * width, width, 0, MAP_HEIGHT, palette);
      // Where the matches of a search are.
      ctx.fillStyle = nx.css(palette.accent);
      for (const bin of hits ? hits.where : []) ctx.fillRect((bin / this.bins) * width, MAP_HEIGHT - 3, Math.max(1.5, width / this.bins), 3);
      if (view.t0 <= 0 && view.t1 >= view.end) return;
      const [x0, x1] = this.windowPx(view);
      ctx.globalAlpha = 0.14;
      ctx.fillStyle = nx.css(palette.accent);
      ctx.fillRect(x0, 0, x1 - x0, MAP_HEIGHT);
      ctx.globalAlpha = 1;
      ctx.fillRect(x0, 0, 1.5, MAP_HEIGHT);
      ctx.fillRect(x1 - 1.5, 0, 1.5, MAP_HEIGHT);
    }

    windowPx(view) {
      const x0 = (view.t0 / view.end) * view.width;
      const x1 = Math.max(x0 + 3, (view.t1 / view.end) * view.width);
      return x1 > view.width ? [view.width - (x1 - x0), view.width] : [x0, x1];
    }

    paintBars(ctx, width, palette, dpr) {
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      ctx.fillStyle = nx.css(palette.inset);
      ctx.fillRect(0, 0, width, MAP_HEIGHT);
      if (!this.bins) return;
      const n = Math.max(1, Math.min(this.bins, Math.floor(width / 4)));
      const pitch = width / n;
      const bars = Array.from({ length: n }, () => ({ total: 0, parts: [] }));
      for (let bar = 0; bar < n; bar++) {
        const from = Math.floor((bar * this.bins) / n);
        const to = Math.max(from + 1, Math.floor(((bar + 1) * this.bins) / n));
        for (const c of this.order) {
          let sum = 0;
          const values = this.meta.minimap[c];
          for (let b = from; b < to; b++) sum += values[b];
          if (sum) bars[bar].parts.push([c, sum]);
          bars[bar].total += sum;
        }
      }
      const most = Math.max(...bars.map((bar) => bar.total), 1);
      bars.forEach((bar, at) => {
        if (!bar.total) return;
        // Square root: a slice of the run with few events stays visible beside a busy one.
        const height = Math.max(2, Math.sqrt(bar.total / most) * (MAP_HEIGHT - 4));
        let y = MAP_HEIGHT;
        for (const [c, sum] of bar.parts) {
          const part = (sum / bar.total) * height;
          ctx.fillStyle = nx.css(nx.mix(palette.rgb[c], palette.surface, 0.85));
          ctx.fillRect(at * pitch, y - part, Math.max(1, pitch - 1), part);
          y -= part;
        }
      });
    }
  };

  /** A name and what it ends with in brackets: the start gives way first, the end tells counters apart. */
  function ends(name) {
    const at = name.endsWith(")") ? name.lastIndexOf("(") : -1;
    return at > 0 ? [el("span", {}, name.slice(0, at)), el("span", {}, name.slice(at))] : [el("span", {}, name)];
  }

  function rank(key) {
    const at = STACK.indexOf(key);
    return at < 0 ? STACK.length : at;
  }

  /** Ticks with labels; returns them. */
  nx.drawAxis = function (canvas, view, palette, dpr) {
    const ctx = nx.fitCanvas(canvas, view.width, AXIS_HEIGHT, dpr);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, view.width, AXIS_HEIGHT);
    const axis = nx.ticks(view.t0, view.t1, view.width, 110);
    ctx.font = SMALL;
    ctx.textBaseline = "middle";
    ctx.strokeStyle = nx.css(palette.line);
    ctx.fillStyle = nx.css(palette.muted);
    ctx.beginPath();
    for (const [t, label] of axis.ticks) {
      const x = Math.round(view.px(t)) + 0.5;
      ctx.moveTo(x, AXIS_HEIGHT - 5);
      ctx.lineTo(x, AXIS_HEIGHT);
      const width = ctx.measureText(label).width;
      if (x + 4 + width < view.width) ctx.fillText(label, x + 4, AXIS_HEIGHT / 2);
    }
    ctx.moveTo(0, AXIS_HEIGHT - 0.5);
    ctx.lineTo(view.width, AXIS_HEIGHT - 0.5);
    ctx.stroke();
    return axis;
  };

  /** The labels of the lanes in sight: buttons that fold their lane and pin it. `app`: the timeline. */
  nx.drawLabels = function (container, headContainer, app) {
    const { view } = app;
    const nodes = [];
    const heads = [];
    const headings = view.labels.filter((label) => label.head && label.lane).length;
    for (const label of view.labels) {
      const { key, lane, series, pinned } = label;
      const list = pinned ? heads : nodes;
      if (label.head) {
        const text = label.annotations ? "annotations" : headings > 1 ? `steps, ${view.severalRanks ? `rank ${lane.rank}` : lane.process_name || lane.process}` : "steps";
        heads.push(el("div", { class: "tl-label tl-label-head", style: `top:${label.y}px`, title: label.annotations ? "Ranges of the rows that hold most of them; each is drawn in its lane, too" : lane.name }, text));
        continue;
      }
      const y = pinned ? label.y : label.y - view.scroll;
      if (label.heading) {
        if (y > -30 && y < view.height) nodes.push(el("div", { class: "tl-group", style: `top:${y}px`, title: `${label.heading}${label.id ? `, process ${label.id}` : ""}` }, el("span", { class: "tl-group-name" }, label.heading), label.id ? el("span", { class: "tl-group-id" }, label.id) : null));
        continue;
      }
      const name = lane ? lane.name : series.name;
      const pin = () => el("button", { type: "button", class: "tl-pin", tabindex: "-1", "aria-pressed": String(pinned), title: pinned ? "Unpin" : "Pin to the top", "aria-label": `${pinned ? "Unpin" : "Pin to the top:"} ${name}`, onclick: () => app.pinLane(key, name) }, nx.pinIcon());
      if (series) {
        const { n, unit, low, high, process } = series;
        if (pinned || (y > -40 && y < view.height)) list.push(el("div", { class: "tl-label tl-label-series", "data-lane": key, style: `top:${y}px`, title: `${name} · ${nx.plural(n, "sample")}, ${nx.amount(low, unit)} to ${nx.amount(high, unit)}${process > 0 ? ` · process ${process}` : ""}` },
          el("span", { class: "tl-label-name tl-label-ends" }, ...ends(name)), el("span", { class: "tl-label-max" }, `max ${nx.amount(high, unit)}${view.severalRanks ? ` · rank ${series.rank}` : ""}`), pin()));
        continue;
      }
      const height = Math.max(18, label.rows * nx.geometry.ROW);
      if (!pinned && (y > view.height || y + height < 0)) continue;
      const closed = label.rows < lane.tracks;
      const foldable = lane.tracks > 1;
      // A tall lane keeps its name in sight while it is scrolled through.
      const top = pinned ? y : Math.max(y, Math.min(2, y + height - 18));
      const hidden = closed ? ` · ${lane.tracks - label.rows} rows hidden` : "";
      const text = [el("span", { class: "tl-label-name" }, name), label.of ? el("span", { class: "tl-group-id" }, label.of) : null, closed ? el("span", { class: "tl-label-more" }, `+${lane.tracks - label.rows}`) : null];
      const title = `${name}${label.of ? `, ${label.of}` : ""} · ${nx.plural(lane.events, "event")}${hidden}${lane.hidden ? ` · ${nx.count(lane.hidden)} not drawn: too many overlap` : ""}`;
      list.push(el("div", { class: "tl-label", "data-lane": key, style: `top:${top}px` },
        foldable
          ? el("button", { class: "tl-label-fold", type: "button", title, tabindex: "-1", "aria-expanded": String(!view.lanes.folded(key)), onclick: () => app.foldLane(key) },
              el("span", { class: "tl-fold", "aria-hidden": "true" }, view.lanes.folded(key) ? "▸" : "▾"), ...text)
          : el("span", { class: "tl-label-plain", title }, ...text),
        pin()));
    }
    container.replaceChildren(...nodes);
    headContainer.replaceChildren(...heads);
  };
})();
