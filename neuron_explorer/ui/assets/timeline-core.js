/* Timeline: formats, ticks, the tile decoder and small helpers. No state. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});

  nx.EDGE = 32768; // x of a tile's right edge, in 1/32 bin
  nx.BINS = 1024;
  nx.OPEN = 0x80; // category flag: the end was not observed

  /** A DOM element; text is always text, never markup. */
  nx.el = function (tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : String(value));
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined && child !== false) node.append(child);
    }
    return node;
  };

  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];

  /** A duration with its unit: three significant digits, whole nanoseconds below 1 µs. */
  nx.duration = function (ns) {
    if (ns === null || ns === undefined || ns < 0) return "not observed";
    if (ns >= 3600e9) return trimmed(ns / 3600e9) + " h";
    if (ns >= 60e9) return trimmed(ns / 60e9) + " min";
    for (const [unit, size] of UNITS) {
      if (ns >= size || size === 1) return (size === 1 ? String(Math.round(ns)) : trimmed(ns / size)) + " " + unit;
    }
    return "0 ns";
  };

  function trimmed(value) {
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  /** A time since the trace's start, as exact as `step` ns asks for, in the unit that suits `most`. */
  nx.time = function (ns, step, most) {
    most = Math.max(most || ns, step);
    if (most >= 3600e9) return clock(ns, step);
    const [unit, size] = UNITS.find(([, size]) => most >= size) || UNITS[3];
    const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(size / Math.max(step, 1)) - 1e-9)));
    return (ns / size).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + " " + unit;
  };

  /** h:mm:ss, with fractions where `step` asks for them. */
  function clock(ns, step) {
    const digits = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(Math.max(step, 1)) - 1e-9)));
    const whole = Math.floor(ns / 1e9 + 1e-12);
    const pad = (n) => String(n).padStart(2, "0");
    const fraction = digits ? ((ns / 1e9) % 1).toFixed(digits).slice(1) : "";
    return `${Math.floor(whole / 3600)}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}${fraction} h`;
  }

  nx.count = (n) => Number(n).toLocaleString("en-US");
  /** A counter's value: short, with k, M, G or T. */
  nx.value = function (n) {
    for (const [sign, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
      if (Math.abs(n) >= size) return (n / (sign === "k" ? 1e3 : size)).toLocaleString("en-US", { maximumSignificantDigits: 3 }) + " " + sign;
    }
    return n.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  };
  /** A value with the unit of its counter: "29.9 MB". */
  nx.amount = (n, unit) => (unit ? nx.value(n).replace(/( [TGMk])?$/, (sign) => (sign || " ") + unit) : nx.value(n));
  nx.plural = (n, word, many) => nx.count(n) + " " + (Number(n) === 1 ? word : many || word + "s");

  /** Tick step (1, 2 or 5 times a power of ten ns) for about `target` ns between ticks. */
  nx.tickStep = function (target) {
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(target, 1))));
    for (const factor of [1, 2, 5, 10]) if (power * factor >= target) return power * factor;
    return power * 10;
  };

  /** Ticks of a window. Deep in a long trace the labels are offsets from `anchor`. */
  nx.ticks = function (t0, t1, width, spacing) {
    const step = nx.tickStep(((t1 - t0) / Math.max(width, 1)) * spacing);
    const span = Math.pow(10, Math.ceil(Math.log10(Math.max(10 * (t1 - t0), 1))));
    const anchor = t1 / step < 20000 ? 0 : Math.floor(t0 / span) * span;
    const ticks = [];
    for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) {
      ticks.push([t, (anchor ? "+" : "") + nx.time(t - anchor, step, t1 - anchor)]);
    }
    return { step, anchor, ticks };
  };

  /** The typed arrays of one tile (see neuron_explorer/ui/timeline/tiles.py). No copy is made. */
  nx.decodeTile = function (buffer, at, length) {
    const head = new DataView(buffer, at, 16);
    if (length < 16 || head.getUint32(0, true) !== 0x3154584e) throw new Error("this is no tile");
    const tracks = head.getUint32(4, true);
    const n = head.getUint32(8, true);
    let p = at + 16;
    const take = (Type, count) => {
      const array = new Type(buffer, p, count);
      p += (count * Type.BYTES_PER_ELEMENT + 3) & ~3;
      return array;
    };
    const tile = { offset: take(Uint32Array, tracks + 1), row: take(Uint32Array, n), name: take(Uint32Array, n),
      x0: take(Uint16Array, n), x1: take(Uint16Array, n), count: take(Uint16Array, n),
      cat: take(Uint8Array, n), fill: take(Uint8Array, n), bytes: length };
    if (p - at !== length) throw new Error("this tile is cut short");
    return tile;
  };

  /** What a label shows of a name: without the namespace that nearly all have. */
  nx.shortName = function (name) {
    if (name.startsWith("aten::")) return name.slice(6);
    if (name.startsWith("autograd::engine::evaluate_function: ")) return name.slice(37);
    return name;
  };

  /** "#rrggbb", "#rgb" or "rgb(r, g, b)" as [r, g, b]. */
  nx.rgb = function (text) {
    text = text.trim();
    let match = /^#([0-9a-f]{3})$/i.exec(text);
    if (match) return [...match[1]].map((c) => parseInt(c + c, 16));
    match = /^#([0-9a-f]{6})/i.exec(text);
    if (match) return [0, 2, 4].map((i) => parseInt(match[1].slice(i, i + 2), 16));
    match = /(\d+)[^\d]+(\d+)[^\d]+(\d+)/.exec(text);
    return match ? match.slice(1, 4).map(Number) : [128, 128, 128];
  };
  nx.mix = (a, b, share) => a.map((v, i) => Math.round(v * share + b[i] * (1 - share)));
  nx.pixel = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  nx.css = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
  nx.luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4)));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
})();
