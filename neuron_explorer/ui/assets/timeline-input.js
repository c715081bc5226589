/* Timeline: keys, pointer and wheel. Calls the app's verbs, keeps no state but the gesture. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const KEYS_OFF = "neuron-explorer-single-keys-off";

  nx.KEYS = [
    ["Move", [["W / S", "zoom in, out at the pointer"], ["A / D", "pan left, right"], ["← → ↑ ↓", "pan and scroll while nothing is selected"], ["Home", "the whole run"], ["Ctrl + wheel", "zoom at the pointer"], ["drag", "pan"], ["Shift + wheel", "pan"]]],
    ["Select", [["click", "select the event"], ["Enter", "first event in view, then the first child"], ["Shift + Enter, ↑", "the parent"], ["Tab, →", "next event in the row"], ["Shift + Tab, ←", "previous event in the row"], ["↓", "the first child"], ["Escape", "drop search, span or selection"]]],
    ["Measure and find", [["Shift + drag", "measure a span; also a drag on the time axis"], ["R", "measure the selected event: what is in it"], ["F", "fit the selection or span, else the whole run"], ["M", "mark the selection or span, again to remove"], ["/", "search"], ["N / Shift + N", "next, previous match"], ["L", "lanes: filter, group, pin, order, fold"], ["?", "this list"]]],
  ];

  nx.keysOff = function (value) {
    try {
      if (value !== undefined) window.localStorage.setItem(KEYS_OFF, value ? "1" : "");
      return window.localStorage.getItem(KEYS_OFF) === "1";
    } catch (error) {
      return false;
    }
  };

  nx.help = function (close) {
    const off = el("input", { type: "checkbox", id: "tl-keys-off" });
    off.checked = nx.keysOff();
    off.addEventListener("change", () => nx.keysOff(off.checked));
    const box = el("div", { class: "tl-help-box" },
      el("h2", { id: "tl-help-title" }, "Keys and mouse"),
      el("div", { class: "tl-help-columns" }, ...nx.KEYS.map(([title, keys]) => el("section", {}, el("h3", {}, title),
        el("dl", {}, ...keys.flatMap(([key, text]) => [el("dt", {}, ...key.split(/( \/ |, )/).map((part) => (/^( \/ |, )$/.test(part) ? part : el("kbd", {}, part)))), el("dd", {}, text)]))))),
      el("label", { class: "tl-help-off" }, off, " Single keys work only while the timeline has the focus"),
      el("button", { type: "button", class: "tl-button", onclick: close }, "Close"));
    const node = el("div", { class: "tl-help", role: "dialog", "aria-modal": "true", "aria-labelledby": "tl-help-title", onclick: (event) => event.target === node && close() }, box);
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Tab") return;
      const stops = [...node.querySelectorAll("input, button")];
      const at = stops.indexOf(document.activeElement);
      stops[(at + (event.shiftKey ? stops.length - 1 : 1)) % stops.length].focus();
      event.preventDefault();
    });
    return node;
  };

  nx.Input = class {
    constructor(app) {
      this.app = app;
      this.abort = new AbortController();
      const on = (target, type, handler, options) => target.addEventListener(type, handler, { signal: this.abort.signal, ...options });
      // In the capture phase: the shell's own handling of Enter in the search field comes after.
      on(document, "keydown", (event) => this.key(event), { capture: true });
      on(app.stage, "wheel", (event) => this.wheel(event), { passive: false });
      for (const canvas of [app.area, app.headCanvas]) {
        on(canvas, "pointerdown", (event) => this.down(event, canvas));
        on(canvas, "pointermove", (event) => this.move(event, canvas));
        on(canvas, "pointerup", (event) => this.up(event, canvas));
        on(canvas, "pointercancel", () => (this.gesture = null));
        on(canvas, "pointerleave", () => app.hover(null));
      }
      // On the axis a drag measures, as with Shift elsewhere.
      on(app.axisCanvas, "pointerdown", (event) => this.down(event, app.axisCanvas, true));
      on(app.axisCanvas, "pointermove", (event) => this.gesture && this.move(event, app.axisCanvas));
      on(app.axisCanvas, "pointerup", (event) => this.gesture && this.gesture.moved ? this.up(event, app.axisCanvas) : (this.gesture = null));
      on(app.axisCanvas, "pointercancel", () => (this.gesture = null));
      for (const labels of [app.labels, app.headLabels]) {
        on(labels, "pointerdown", (event) => app.labelDown(event));
        on(labels, "pointermove", (event) => app.labelMove(event, labels));
        on(labels, "pointerup", () => app.labelUp());
        on(labels, "pointercancel", () => app.labelUp());
      }
      on(app.mapCanvas, "pointerdown", (event) => this.mapDown(event));
      on(app.mapCanvas, "pointermove", (event) => this.mapMove(event));
      on(app.mapCanvas, "pointerup", () => (this.map = null));
      on(app.mapCanvas, "pointercancel", () => (this.map = null));
      this.pointer = null; // css px on the time axis, while the pointer is over it
    }

    close() {
      this.abort.abort();
    }

    key(event) {
      const { app } = this;
      if (!app.alive() || event.defaultPrevented) return;
      const at = event.target;
      const inSearch = at.closest && at.closest("#quick-search");
      if (inSearch && event.key === "Enter") {
        event.stopPropagation();
        event.preventDefault();
        app.search(at.value);
        app.stage.focus();
        return;
      }
      const typing = at.matches && at.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
      if (typing || event.altKey || event.ctrlKey || event.metaKey) return;
      if (app.helpNode) {
        if (event.key === "Escape" || event.key === "?") this.take(event, () => app.toggleHelp());
        return;
      }
      const focused = app.stage.contains(at);
      const control = !focused && at.matches && at.matches("button, a, summary, [tabindex]:not(main)");
      if (!focused && (nx.keysOff() || !(at === document.body || at.closest("main")))) return;
      const verb = this.verb(event, focused, control);
      if (verb) this.take(event, verb);
    }

    take(event, verb) {
      event.preventDefault();
      event.stopPropagation();
      verb();
    }

    verb(event, focused, control) {
      const { app } = this;
      const centre = this.pointer === null ? app.view.width / 2 : this.pointer;
      const step = event.shiftKey ? 0.5 : 1;
      const selected = app.selected !== null;
      switch (event.key.length === 1 ? event.key.toLowerCase() : event.key) {
        case "w": case "+": case "=": return () => app.zoom(1 / 1.5, centre);
        case "s": case "-": return () => app.zoom(1.5, centre);
        case "a": return () => app.pan(-app.view.width * 0.15 * step);
        case "d": return () => app.pan(app.view.width * 0.15 * step);
        case "f": return () => app.fit();
        case "m": return () => app.mark();
        case "r": return () => app.spanOfSelection();
        case "l": return () => app.toggleLanes();
        case "n": return () => app.nextHit(event.shiftKey ? -1 : 1);
        case "?": return () => app.toggleHelp();
        case "Home": return () => app.show(0, app.view.end);
        case "Escape": return app.lanesNode ? () => app.toggleLanes() : app.canEscape() ? () => app.escape() : null;
      }
      if (control) return null; // Enter, Tab and arrows belong to the control that has the focus
      switch (event.key) {
        case "Enter": return () => (selected ? app.walk(event.shiftKey ? "parent" : "child") : app.walk("first"));
        // Tab leaves the timeline unless an event is selected: Escape always gives it back.
        case "Tab": return focused && selected ? () => app.walk(event.shiftKey ? "previous" : "next") : null;
        case "ArrowLeft": return () => (selected ? app.walk("previous") : app.pan(-app.view.width * 0.1));
        case "ArrowRight": return () => (selected ? app.walk("next") : app.pan(app.view.width * 0.1));
        case "ArrowUp": return () => (selected ? app.walk("parent") : app.scrollBy(-3 * nx.geometry.ROW));
        case "ArrowDown": return () => (selected ? app.walk("child") : app.scrollBy(3 * nx.geometry.ROW));
      }
      return null;
    }

    wheel(event) {
      const { app } = this;
      const unit = event.deltaMode === 1 ? 16 : 1;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
          const px = event.clientX - app.body.getBoundingClientRect().left;
        app.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * unit)) * 0.004), Math.max(0, Math.min(px, app.view.width)));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
          app.pan((event.deltaX || event.deltaY) * unit);
      } // anything else scrolls the lanes, as the browser does it
    }

    place(event, canvas) {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top, head: canvas === this.app.headCanvas };
    }

    down(event, canvas, measure = event.shiftKey) {
      if (event.button !== 0) return;
      const at = this.place(event, canvas);
      this.gesture = { ...at, lastX: at.x, lastY: at.y, moved: false, measure };
      canvas.setPointerCapture(event.pointerId);
      this.app.stage.focus({ preventScroll: true });
    }

    move(event, canvas) {
      const { app, gesture } = this;
      const at = this.place(event, canvas);
      this.pointer = Math.max(0, Math.min(at.x, app.view.width));
      if (!gesture) {
        app.hover(at);
        return;
      }
      if (!gesture.moved && Math.hypot(at.x - gesture.x, at.y - gesture.y) < 4) return;
      gesture.moved = true;
      app.hover(null);
      if (gesture.measure) {
        app.measure(app.view.time(gesture.x), app.view.time(this.pointer), false);
      } else {
        canvas.style.cursor = "grabbing";
        app.pan(gesture.lastX - at.x);
        if (!gesture.head) app.scrollBy(gesture.lastY - at.y);
      }
      gesture.lastX = at.x;
      gesture.lastY = at.y;
    }

    up(event, canvas) {
      const { app, gesture } = this;
      this.gesture = null;
      canvas.style.cursor = "";
      if (!gesture) return;
      if (!gesture.moved) app.click(this.place(event, canvas));
      else if (gesture.measure) app.measure(app.view.time(gesture.x), app.view.time(this.pointer), true);
    }

    mapDown(event) {
      const { app } = this;
      const x = event.clientX - app.mapCanvas.getBoundingClientRect().left;
      const [x0, x1] = app.minimap.windowPx(app.view);
      app.mapCanvas.setPointerCapture(event.pointerId);
      const edge = x1 - x0 > 24 ? 6 : 0;
      this.map = { x, part: Math.abs(x - x0) < edge ? "left" : Math.abs(x - x1) < edge ? "right" : "all" };
      if (this.map.part === "all" && (x < x0 || x > x1)) app.centre((x / app.view.width) * app.view.end);
    }

    mapMove(event) {
      const { app, map } = this;
      const x = event.clientX - app.mapCanvas.getBoundingClientRect().left;
      const [x0, x1] = app.minimap.windowPx(app.view);
      const near = x1 - x0 > 24 && (Math.abs(x - x0) < 6 || Math.abs(x - x1) < 6);
      app.mapCanvas.style.cursor = near ? "ew-resize" : "";
      if (!map) return;
      const move = ((x - map.x) / app.view.width) * app.view.end;
      map.x = x;
      const { t0, t1 } = app.view;
      if (map.part === "left") app.show(Math.min(t0 + move, t1 - 1), t1);
      else if (map.part === "right") app.show(t0, Math.max(t1 + move, t0 + 1));
      else app.show(t0 + move, t1 + move);
    }
  };
})();
