/* Timeline: drawing. Slices are written as pixels into one ImageData; only labels, hatches
   and outlines are drawn with canvas calls (a fillRect per event is some twenty times slower). */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const SHADES = 16;
  const AS_KIND = 255; // class of what keeps the colour of its kind
  const MAX_LABELS = 1500;
  const LABEL_WIDTH = 34; // css px from which a slice is named
  const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";

  nx.Palette = class {
    /** Colours of the categories, and after them of the classes (see nx.classColours), from the CSS
        variables of `root`, in the current theme. `by`: what slices are coloured by. */
    constructor(root, categories, by) {
      const style = getComputedStyle(root);
      const read = (name) => nx.rgb(style.getPropertyValue(name) || "#888888");
      this.surface = read("--surface");
      this.text = read("--text");
      this.muted = read("--text-2");
      this.line = read("--line");
      this.accent = read("--accent");
      this.soft = read("--accent-soft");
      this.inset = read("--inset");
      this.background = nx.pixel(this.surface);
      this.grid = nx.pixel(nx.mix(this.line, this.surface, 0.6));
      this.classes = categories.length; // the first class
      const colours = [...categories.map((category) => [read("--tl-" + category.key), category.mark]), ...nx.classColours(by, read, this.surface).map((colour) => [colour, ""])];
      const n = colours.length * SHADES;
      // Full colour, and dimmed for what a search leaves out; the mark is a darker or lighter edge.
      this.full = new Uint32Array(n);
      this.fullTop = new Uint32Array(n);
      this.fullBottom = new Uint32Array(n);
      this.dim = new Uint32Array(n);
      this.rgb = [];
      this.label = [];
      colours.forEach(([colour, mark], c) => {
        const dark = nx.luminance(colour) < 0.2; // white text has the better contrast
        const edge = nx.mix(colour, dark ? [255, 255, 255] : [0, 0, 0], dark ? 0.5 : 0.55);
        this.rgb.push(colour);
        this.label.push(dark ? "#ffffff" : "#16181d");
        for (let s = 0; s < SHADES; s++) {
          // A merged slice is paler the less of it is covered, never invisible.
          const strength = 0.28 + 0.72 * (s / (SHADES - 1));
          const at = c * SHADES + s;
          const shade = nx.mix(colour, this.surface, strength);
          const marked = nx.mix(edge, this.surface, strength);
          this.full[at] = nx.pixel(shade);
          this.fullTop[at] = nx.pixel(mark === "top" || mark === "both" ? marked : shade);
          this.fullBottom[at] = nx.pixel(mark === "bottom" || mark === "both" ? marked : shade);
          this.dim[at] = nx.pixel(nx.mix(shade, this.surface, 0.22));
        }
      });
    }
  };

  /** Colours of classes 0 to 9 (the costliest things, or steps of self time), of others, and of none. */
  nx.classColours = function (by, read, surface) {
    const classes = [];
    const [low, middle, high] = ["low", "middle", "high"].map((name) => read("--tl-cost-" + name));
    for (let n = 0; n < 10; n++) {
      classes.push(by === "cost" ? (n < 5 ? nx.mix(middle, low, n / 4.5) : nx.mix(high, middle, (n - 4.5) / 4.5)) : read("--tl-by-" + n));
    }
    return [...classes, read("--tl-by-others"), nx.mix(read("--tl-by-others"), surface, 0.45)];
  };

  /** A canvas that is as many device pixels large as it covers. */
  function fit(canvas, width, height, dpr) {
    const w = Math.max(1, Math.round(width * dpr));
    const h = Math.max(1, Math.round(height * dpr));
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      // Not the wanted size where the ratio is no whole number: one pixel of the canvas is one of the screen.
      canvas.style.width = w / dpr + "px";
      canvas.style.height = h / dpr + "px";
    }
    return canvas.getContext("2d", { alpha: !canvas.nxOpaque });
  }
  nx.fitCanvas = fit;

  nx.Painter = class {
    constructor(source, view) {
      this.source = source;
      this.view = view;
      this.widths = new Map();
      this.buffers = [];
      this.drawn = { single: 0, merged: 0, missing: 0 };
    }

    /** Draw `rows` on a canvas of `height` css px, scrolled by `scroll`. Clears it first.
        `grid`: device px of the tick lines, drawn where no slice is. */
    rows(canvas, rows, height, scroll, palette, dpr, tiles, grid) {
      const { view } = this;
      const ctx = fit(canvas, view.width, height, dpr);
      const W = canvas.width;
      const H = canvas.height;
      let image = canvas.nxImage;
      if (!image || image.width !== W || image.height !== H) {
        image = canvas.nxImage = ctx.createImageData(W, H);
        image.words = new Uint32Array(image.data.buffer);
      }
      const words = image.words;
      words.fill(palette.background);
      for (const x of grid) {
        if (x >= 0 && x < W) for (let p = x; p < words.length; p += W) words[p] = palette.grid;
      }
      if (!this.line || this.line.length !== W) {
        this.line = new Uint32Array(W);
        this.top = new Uint32Array(W);
        this.bottom = new Uint32Array(W);
        this.mask = new Uint8Array(W);
      }
      const blank = words.slice(0, W);
      const labels = [];
      const hatches = [];
      const covers = new Map();
      const cover = (block) => {
        let found = covers.get(block);
        if (!found) {
          found = [];
          for (const i of tiles.numbers) {
            if (!this.source.cover(block, tiles.k, i, found)) this.drawn.missing++;
          }
          covers.set(block, found);
        }
        return found;
      };
      const bar = Math.round(nx.geometry.BAR * dpr);
      const edge = Math.max(1, Math.round(2 * dpr));
      for (const row of rows) {
        const y0 = Math.round((row.y - scroll) * dpr);
        this.line.set(blank);
        this.top.set(blank);
        this.bottom.set(blank);
        this.row(row, cover(row.block), palette, dpr, tiles, labels, hatches);
        for (let y = Math.max(0, y0); y < Math.min(H, y0 + bar); y++) {
          const from = y < y0 + edge ? this.top : y >= y0 + bar - edge ? this.bottom : this.line;
          words.set(from, y * W);
        }
      }
      ctx.putImageData(image, 0, 0);
      ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
      this.hatch(ctx, hatches, scroll, palette, dpr);
      this.write(ctx, labels, scroll, palette, dpr);
    }

    /** The pixels of one row into the line buffers; labels and hatches are collected. */
    row(row, segments, palette, dpr, tiles, labels, hatches) {
      const { view, source } = this;
      const W = this.line.length;
      const perPx = view.nsPerPx / dpr;
      const gap = Math.max(1, Math.round(dpr));
      const filtered = source.filter !== "";
      const coloured = source.colour !== "kind";
      let pending = null; // a slice that reaches the edge of its tile
      const flush = (slice) => {
        if (!slice) return;
        const width = (Math.min(slice.x1, W) - Math.max(slice.x0, 0)) / dpr;
        if (slice.open && width >= 1) hatches.push(slice);
        if (width >= LABEL_WIDTH && labels.length < MAX_LABELS) labels.push(slice);
      };
      for (const segment of segments) {
        const { tile, k, i } = segment;
        const A = (i * nx.BINS * 2 ** k - view.t0) / perPx;
        const B = 2 ** k / 32 / perPx;
        let left = Math.max(0, Math.floor(A));
        let right = Math.min(W, Math.ceil(A + nx.EDGE * B));
        if (segment.clip) {
          const [ck, c0, c1] = segment.clip;
          const span = nx.BINS * 2 ** ck;
          left = Math.max(0, Math.floor((c0 * span - view.t0) / perPx));
          right = Math.min(W, Math.ceil((c1 * span - view.t0) / perPx));
        }
        if (right <= left) continue;
        const mask = filtered && !segment.clip ? this.marked(row, k, i, A, B, left, right) : null;
        const { x0, x1, count, cat, fill, name, offset } = tile;
        const paint = coloured && row.only === undefined ? source.paint(row.block, k, i) : null;
        if (coloured && row.only === undefined && !paint) this.drawn.missing++;
        const end = offset[row.r + 1];
        let e = lowerBound(x1, offset[row.r], end, (left - A) / B);
        for (; e < end; e++) {
          const from = A + x0[e] * B;
          if (from >= right) break;
          const to = A + x1[e] * B;
          let p0 = Math.floor(from);
          // Tiles round ends up by at most 1/32 pixel: that alone is no reason for one more.
          let p1 = Math.max(p0 + 1, Math.ceil(to - 0.04));
          // A gap sets a slice apart from the one that follows at once, where it is wide enough.
          if (to - from > 4 * dpr && e + 1 < end) p1 = Math.min(p1, Math.floor(A + x0[e + 1] * B) - gap);
          if (p0 < left) p0 = left;
          if (p1 > right) p1 = right;
          if (p1 <= p0) p1 = Math.min(p0 + 1, right);
          if (row.only !== undefined && (cat[e] & 0x7f) !== row.only) continue;
          const category = paint && paint[e] !== AS_KIND ? palette.classes + paint[e] : cat[e] & 0x7f;
          const at = category * SHADES + (fill[e] >> 4);
          const single = count[e] === 1;
          if (mask) {
            for (let p = p0; p < p1; p++) {
              const on = mask[p];
              this.line[p] = on ? palette.full[at] : palette.dim[at];
              this.top[p] = on ? palette.fullTop[at] : palette.dim[at];
              this.bottom[p] = on ? palette.fullBottom[at] : palette.dim[at];
            }
          } else if (p1 - p0 === 1) {
            this.line[p0] = palette.full[at];
            this.top[p0] = palette.fullTop[at];
            this.bottom[p0] = palette.fullBottom[at];
          } else {
            this.line.fill(palette.full[at], p0, p1);
            this.top.fill(palette.fullTop[at], p0, p1);
            this.bottom.fill(palette.fullBottom[at], p0, p1);
          }
          if (!single) {
            if (!row.head || row.pinned) this.drawn.merged += count[e];
            continue;
          }
          const id = tile.row[e];
          if (pending && pending.id === id) {
            pending.x1 = to; // the same event, continued in this tile
            if (x1[e] < nx.EDGE) {
              flush(pending);
              pending = null;
            }
            continue;
          }
          flush(pending);
          pending = null;
          if (!row.head || row.pinned) this.drawn.single++; // steps and annotations are no lanes
          if (x1[e] === nx.EDGE || to - from >= LABEL_WIDTH * 0.5 * dpr || cat[e] & nx.OPEN) {
            const slice = { id, name: name[e], x0: from, x1: to, category, y: row.y, open: (cat[e] & nx.OPEN) !== 0, dim: mask ? !mask[Math.max(p0, Math.min(p1 - 1, (p0 + p1) >> 1))] : false };
            if (x1[e] === nx.EDGE) pending = slice;
            else flush(slice);
          }
        }
      }
      flush(pending);
    }

    /** Which pixels of [left, right) hold a match; null until that is known. */
    marked(row, k, i, A, B, left, right) {
      const mark = this.source.mark(row.block, k, i);
      this.mask.fill(0, left, right);
      if (!mark) return null;
      const bits = mark.bits;
      const base = row.r * (nx.BINS / 8);
      const bin = B * 32;
      for (let byte = 0; byte < nx.BINS / 8; byte++) {
        const value = bits[base + byte];
        if (!value) continue;
        for (let bit = 0; bit < 8; bit++) {
          if (!(value & (1 << bit))) continue;
          const b = byte * 8 + bit;
          const p0 = Math.max(left, Math.floor(A + b * bin));
          const p1 = Math.min(right, Math.max(p0 + 1, Math.ceil(A + (b + 1) * bin)));
          for (let p = p0; p < p1; p++) this.mask[p] = 1;
        }
      }
      return this.mask;
    }

    hatch(ctx, slices, scroll, palette, dpr) {
      ctx.save();
      ctx.lineWidth = 1;
      for (const slice of slices.slice(0, 400)) {
        const x0 = Math.max(0, slice.x0 / dpr);
        const x1 = Math.min(this.view.width, slice.x1 / dpr);
        const y = slice.y - scroll;
        ctx.save();
        ctx.beginPath();
        ctx.rect(x0, y, x1 - x0, nx.geometry.BAR);
        ctx.clip();
        ctx.strokeStyle = nx.css(palette.surface);
        ctx.globalAlpha = 0.55;
        ctx.beginPath();
        for (let x = x0 - nx.geometry.BAR - (x0 % 8); x < x1; x += 8) {
          ctx.moveTo(x, y + nx.geometry.BAR);
          ctx.lineTo(x + nx.geometry.BAR, y);
        }
        ctx.stroke();
        ctx.restore();
      }
      ctx.restore();
    }

    write(ctx, labels, scroll, palette, dpr) {
      ctx.font = FONT;
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      ctx.direction = "ltr";
      let colour = "";
      for (const slice of labels) {
        const name = this.source.name(slice.name);
        if (!name) continue;
        const x = Math.max(0, slice.x0 / dpr) + 4;
        const room = Math.min(this.view.width, slice.x1 / dpr) - x - 3;
        const text = this.fitted(ctx, slice.open ? nx.shortName(name) + " (end not observed)" : nx.shortName(name), room);
        if (!text) continue;
        const wanted = slice.dim ? nx.css(palette.muted) : palette.label[slice.category];
        if (wanted !== colour) ctx.fillStyle = colour = wanted;
        ctx.fillText(text, x, slice.y - scroll + nx.geometry.BAR / 2 + 0.5);
      }
    }

    /** As much of a text as `room` css px hold. */
    fitted(ctx, text, room) {
      if (text.length > 200) text = text.slice(0, 200) + "…";
      const width = this.width(ctx, text);
      if (width <= room) return text;
      for (let fits = Math.floor((text.length * (room - 7)) / width); fits >= 2; fits--) {
        const head = text.slice(0, fits) + "…";
        if (this.width(ctx, head) <= room) return head;
      }
      return "";
    }

    width(ctx, text) {
      let width = this.widths.get(text);
      if (width === undefined) {
        if (this.widths.size > 20000) this.widths.clear();
        width = ctx.measureText(text).width;
        this.widths.set(text, width);
      }
      return width;
    }

    /** The entry of a row at css pixel `px`: what the picture shows there. */
    at(row, px, tiles) {
      const { view } = this;
      const segments = [];
      for (const i of tiles.numbers) this.source.cover(row.block, tiles.k, i, segments);
      const t = view.time(px);
      let near = null;
      for (const { tile, k, i } of segments) {
        const start = i * nx.BINS * 2 ** k;
        const x = ((t - start) / 2 ** k) * 32;
        if (x < 0 || x >= nx.EDGE) continue;
        const slack = ((view.nsPerPx * 1.5) / 2 ** k) * 32;
        const end = tile.offset[row.r + 1];
        for (let e = lowerBound(tile.x1, tile.offset[row.r], end, x - slack); e < end && tile.x0[e] <= x + slack; e++) {
          if (row.only !== undefined && (tile.cat[e] & 0x7f) !== row.only) continue;
          const inside = tile.x0[e] <= x && tile.x1[e] > x;
          if (inside || !near) near = { id: tile.row[e], name: tile.name[e], count: tile.count[e], category: tile.cat[e] & 0x7f, open: (tile.cat[e] & nx.OPEN) !== 0 };
          if (inside) return near;
        }
      }
      return near;
    }
  };

  /** First index in [lo, hi) of a sorted array whose value is above `limit`. */
  function lowerBound(array, lo, hi, limit) {
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (array[mid] <= limit) lo = mid + 1;
      else hi = mid;
    }
    return lo;
  }
})();
