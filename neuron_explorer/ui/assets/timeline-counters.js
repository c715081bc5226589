/* Timeline: counters, drawn as areas: a sample holds until the next one. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const HEIGHT = 30;
  const MOST = 32; // series in one request
  const MOST_BYTES = 16 << 20;
  nx.counters = { HEIGHT };

  nx.Counters = class {
    constructor(source, meta) {
      this.source = source;
      this.meta = meta;
      this.tiles = new nx.ByteMap(MOST_BYTES);
      this.asked = new Set();
    }

    /** The samples of a tile, or of a coarser one that covers it. */
    find(part, k, i) {
      for (let up = 0; up <= 16; up++) {
        const found = this.tiles.get(`${part}/${k + up}/${Math.floor(i / 2 ** up)}`);
        if (found) return { data: found.data, k: k + up, i: Math.floor(i / 2 ** up) };
      }
      return null;
    }

    /** Ask for what is missing of the counters in sight, MOST at a time. */
    want(k, numbers, rows) {
      const parts = new Set(rows.map((row) => Math.floor(row.series / MOST)));
      for (const part of parts) for (const i of numbers) {
        const key = `${part}/${k}/${i}`;
        if (this.tiles.has(key) || this.asked.has(key) || this.source.gone) continue;
        this.asked.add(key);
        const s = this.meta.series.map((_, n) => n).slice(part * MOST, (part + 1) * MOST).join();
        this.source.ask("series", { k, i, s }).then((data) => {
          this.tiles.set(key, { data, bytes: Object.values(data).reduce((sum, series) => sum + 24 * series.x.length + 200, 200) });
          this.source.changed();
        }, (error) => this.source.pause(error)).finally(() => this.asked.delete(key));
      }
    }

    /** The steps [t, value] of a series over the window. */
    steps(number, view, tiles) {
      const steps = [];
      let last = null;
      for (const i of tiles.numbers) {
        const found = this.find(Math.floor(number / MOST), tiles.k, i);
        if (!found || (last && last.k === found.k && last.i === found.i)) continue;
        last = found;
        const data = found.data[number];
        if (!data) continue;
        const bin = 2 ** found.k;
        const start = found.i * nx.BINS * bin;
        if (data.before !== null && !steps.length) steps.push([start, data.before]);
        data.x.forEach((x, n) => {
          steps.push([start + x * bin, data.high[n]]);
          if (data.last[n] !== data.high[n]) steps.push([start + (x + 1) * bin, data.last[n]]);
        });
      }
      return steps;
    }

    draw(ctx, row, view, tiles, palette) {
      const series = this.meta.series[row.series];
      const steps = this.steps(row.series, view, tiles);
      const low = Math.min(0, series.low);
      const range = Math.max(series.high - low, 1e-12);
      const y = row.head ? row.y : row.y - view.scroll;
      const at = (value) => y + HEIGHT - 2 - ((value - low) / range) * (HEIGHT - 6);
      ctx.strokeStyle = nx.css(palette.line);
      ctx.beginPath();
      ctx.moveTo(0, y + HEIGHT - 1.5);
      ctx.lineTo(view.width, y + HEIGHT - 1.5);
      ctx.stroke();
      if (!steps.length) return;
      ctx.beginPath();
      const first = Math.max(0, view.px(steps[0][0]));
      ctx.moveTo(first, at(low));
      let before = null;
      for (const [t, value] of steps) {
        const x = Math.max(0, Math.min(view.width, view.px(t)));
        if (before !== null) ctx.lineTo(x, at(before));
        ctx.lineTo(x, at(value));
        before = value;
      }
      ctx.lineTo(view.width, at(before));
      ctx.lineTo(view.width, at(low));
      ctx.closePath();
      ctx.fillStyle = nx.css(nx.mix(palette.accent, palette.surface, 0.2));
      ctx.fill();
      ctx.strokeStyle = nx.css(nx.mix(palette.accent, palette.surface, 0.6));
      ctx.stroke();
    }

    /** What holds at a time: the last step at or before it. */
    valueAt(number, t, view, tiles) {
      let found = null;
      for (const [at, value] of this.steps(number, view, tiles)) {
        if (at > t) break;
        found = value;
      }
      return found;
    }
  };
})();
