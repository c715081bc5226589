"use strict";
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const box = document.getElementById("timeline-box");
  const canvas = box.querySelector("canvas");
  const said = document.getElementById("timeline-said");
  const small = document.getElementById("timeline-small");
  const ROW = 16, HEAD = 20, AXIS = 24, GAP = 8;
  const tops = [];
  let height = AXIS;
  for (const [, rows] of data.lanes) { tops.push(height + HEAD); height += HEAD + rows * ROW + GAP; }
  let from = 0, to = data.duration, chosen = -1, hovered = -1, width = 0;
  const slices = data.slices, merged = data.merged, texts = data.texts;

  const duration = (ns) => {
    for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
      if (ns >= unit) { return `${Number((ns / unit).toPrecision(4))} ${name}`; }
    }
    return `${Math.round(ns)} ns`;
  };
  const x = (t) => (t - from) / (to - from) * width;
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim() || style.getPropertyValue("--other").trim();
  };

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    width = box.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d"), colour = colours(), known = new Map();
    const of = (name) => { if (!known.has(name)) { known.set(name, colour(name)); } return known.get(name); };
    c.scale(ratio, ratio);
    c.clearRect(0, 0, width, height);
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    axis(c, of);
    data.lanes.forEach(([name], lane) => {
      c.fillStyle = of("soft");
      c.fillText(name, 2, tops[lane] - HEAD / 2, width - 4);
    });
    let tiny = 0;
    for (const [lane, row, start, lasts, count] of merged) {
      if (start + lasts < from || start > to) { continue; }
      tiny += count;
      c.fillStyle = of("python");
      c.fillRect(x(start), tops[lane] + row * ROW + 4, Math.max(1, x(start + lasts) - x(start)), ROW - 9);
    }
    const drawn = new Map();
    let narrow = 0;
    slices.forEach((s, i) => {
      const [lane, row, start, lasts] = s;
      if (start + lasts < from || start > to) { return; }
      const left = Math.max(0, x(start)), right = Math.min(width, x(start + lasts)), wide = right - left;
      const y = tops[lane] + row * ROW;
      if (wide < 1) {
        narrow += 1;
        const key = lane * 1000 + row, at = Math.round(left);
        if (drawn.get(key) === at) { return; }
        drawn.set(key, at);
      }
      c.fillStyle = of(texts[s[5]]);
      c.fillRect(left, y, Math.max(wide - (wide > 3 ? 0.5 : 0), 1), ROW - 1);
      if (wide > 28) {
        const name = texts[s[4]], fits = Math.floor((wide - 8) / 6);
        c.fillStyle = ink(of(texts[s[5]]));
        c.fillText(name.length > fits ? `${name.slice(0, Math.max(fits - 1, 1))}…` : name, left + 4, y + ROW / 2);
      }
      if (i === chosen || i === hovered) {
        c.strokeStyle = of(i === chosen ? "accent" : "text");
        c.lineWidth = 2;
        c.strokeRect(left + 1, y + 1, Math.max(wide - 2, 2), ROW - 3);
      }
    });
    small.textContent = [
      `${duration(to - from)} shown, from ${duration(data.start + from)} on.`,
      narrow ? `${narrow.toLocaleString("en")} shorter than a pixel, drawn as marks.` : "",
      tiny ? `${tiny.toLocaleString("en")} of at most ${duration(data.shorter_than)} put together (grey).` : "",
    ].filter(Boolean).join(" ");
  }
  function ink(colour) {
    const hex = /^#(..)(..)(..)$/.exec(colour.replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3"));
    if (!hex) { return "#fff"; }
    const [r, g, b] = hex.slice(1).map((v) => (parseInt(v, 16) / 255) ** 2.2);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#16181d" : "#fff";
  }
  function axis(c, of) {
    const rough = (to - from) / Math.max(2, width / 120), power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const at = x(t);
      c.fillStyle = of("line");
      c.fillRect(at, AXIS - 4, 1, height - AXIS);
      c.fillStyle = of("soft");
      const label = t === 0 ? "0" : duration(t), wide = c.measureText(label).width;
      if (at + wide / 2 < width) { c.fillText(label, Math.max(0, at - wide / 2), AXIS / 2 - 2); }
    }
  }
  function show(i) {
    if (i < 0) { said.textContent = "Point at a slice, or choose one with the keys [ and ]."; return; }
    const s = slices[i];
    said.textContent = "";
    const name = document.createElement("b");
    name.textContent = texts[s[4]];
    const rest = [duration(s[3]), `at ${duration(s[2])}`, texts[s[5]].replace("_", " "), texts[s[6]], texts[s[7]],
      data.lanes[s[0]][0]];
    said.append(name, ` · ${rest.filter(Boolean).join(" · ")}`);
  }
  function view(a, b) {
    const least = Math.min(20, data.duration), wide = Math.min(Math.max(b - a, least), data.duration);
    from = Math.min(Math.max(a, 0), data.duration - wide);
    to = from + wide;
    draw();
  }
  function zoom(factor, at) {
    const middle = at === undefined ? (from + to) / 2 : at;
    view(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }
  const pan = (share) => { const by = (to - from) * share; view(from + by, to + by); };
  const time = (event) => from + (event.clientX - canvas.getBoundingClientRect().left) / width * (to - from);
  function under(event) {
    const y = event.clientY - canvas.getBoundingClientRect().top, t = time(event), slack = (to - from) / width;
    let best = -1;
    slices.forEach((s, i) => {
      const top = tops[s[0]] + s[1] * ROW;
      if (y >= top && y < top + ROW && t >= s[2] - slack && t <= s[2] + s[3] + slack
          && (best < 0 || s[3] < slices[best][3] || slices[best][2] + slices[best][3] < t)) { best = i; }
    });
    return best;
  }
  let drag = null;
  canvas.addEventListener("pointerdown", (e) => {
    drag = { x: e.clientX, from, to, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (drag) {
      const by = (drag.x - e.clientX) / width * (drag.to - drag.from);
      drag.moved = drag.moved || Math.abs(drag.x - e.clientX) > 3;
      if (drag.moved) { view(drag.from + by, drag.to + by); }
      return;
    }
    const i = under(e);
    if (i !== hovered) { hovered = i; show(i < 0 ? chosen : i); draw(); }
  });
  canvas.addEventListener("pointerup", (e) => {
    if (drag && !drag.moved) { chosen = under(e); show(chosen); draw(); }
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { if (hovered >= 0) { hovered = -1; show(chosen); draw(); } });
  canvas.addEventListener("dblclick", (e) => zoom(0.4, time(e)));
  canvas.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : 0.8, time(e)); }
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      pan((e.deltaX || e.deltaY) / width);
    }
  }, { passive: false });
  const byTime = slices.map((_, i) => i).sort((a, b) => slices[a][2] - slices[b][2] || slices[a][1] - slices[b][1]);
  function next(by) {
    if (!byTime.length) { return; }
    const at = chosen < 0 ? (by > 0 ? -1 : byTime.length) : byTime.indexOf(chosen);
    chosen = byTime[Math.min(Math.max(at + by, 0), byTime.length - 1)];
    const s = slices[chosen], wide = to - from;
    show(chosen);
    if (s[2] + s[3] < from || s[2] > to) { view(s[2] - wide * 0.1, s[2] + wide * 0.9); } else { draw(); }
  }
  const fit = () => {
    if (chosen >= 0) { const s = slices[chosen]; view(s[2] - s[3] * 0.1, s[2] + s[3] * 1.1); }
  };
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6),
    "-": () => zoom(1.7), 0: () => view(0, data.duration), "[": () => next(-1), "]": () => next(1), Enter: fit,
  };
  canvas.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) { return; }
    e.preventDefault();
    keys[e.key]();
  });
  const actions = { in: () => zoom(0.6), out: () => zoom(1.7), left: () => pan(-0.2), right: () => pan(0.2),
    all: () => view(0, data.duration) };
  for (const button of document.querySelectorAll("[data-timeline]")) {
    button.addEventListener("click", actions[button.dataset.timeline]);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe(box);
  show(-1);
  draw();
})();
