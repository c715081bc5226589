/* Timeline: which lanes are shown, in what order and groups; the list of them; dragging one. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  const MAX_PINS = 12;
  const MAX_MOVES = 64;
  const LISTED = 200;
  nx.GROUPS = { process: "process", thread: "thread", device: "device", rank: "rank", none: "nothing" };

  /** What is chosen of the lanes. Keys are the trace's lane numbers, "c3" for the fourth counter. */
  nx.LaneChoice = class {
    constructor(given = {}) {
      this.group = given.group in nx.GROUPS ? given.group : "process";
      this.filter = given.filter || "";
      this.pins = [...new Set(given.pins || [])].slice(0, MAX_PINS);
      this.moves = (given.moves || []).slice(0, MAX_MOVES); // [key, key of the lane that it comes before or "e"]
      this.foldAll = Boolean(given.foldAll);
      this.except = new Set(given.except || []);
    }
    folded(key) {
      return this.foldAll !== this.except.has(key);
    }
    fold(key, folded = !this.folded(key)) {
      if (this.foldAll !== folded) this.except.add(key);
      else this.except.delete(key);
    }
    foldEvery(folded) {
      this.foldAll = folded;
      this.except.clear();
    }
    pinned(key) {
      return this.pins.includes(key);
    }
    /** Returns whether there was room. */
    pin(key) {
      if (this.pinned(key)) this.pins = this.pins.filter((other) => other !== key);
      else if (this.pins.length >= MAX_PINS) return false;
      else this.pins.push(key);
      return true;
    }
    move(key, before) {
      this.moves = [...this.moves.filter(([moved]) => moved !== key), [key, before]].slice(-MAX_MOVES);
    }
  };

  /** Every lane and counter but the steps, in the trace's order: {key, lane, number} or {key, series, number}. */
  nx.laneItems = function (meta) {
    const items = [];
    meta.lanes.forEach((lane, number) => lane.kind !== "steps" && items.push({ key: String(lane.lane), lane, number, name: lane.name }));
    meta.series.forEach((series, number) => items.push({ key: "c" + number, series, number, name: series.name }));
    return items;
  };

  function says({ lane, series }) {
    return (lane
      ? `${lane.name} ${lane.process_name} ${lane.process} ${lane.kind} rank ${lane.rank} ${lane.device || "host"}`
      : `${series.name} counter rank ${series.rank} ${series.process} `).toLowerCase();
  }

  function groupOf({ lane, series }, by, threads, severalRanks) {
    if (series) return ["counters", "counters", ""];
    const rank = severalRanks ? `rank ${lane.rank} · ` : "";
    const id = lane.process > 0 ? String(lane.process) : "";
    if (by === "rank") return ["r" + lane.rank, `rank ${lane.rank}`, ""];
    if (by === "device") return ["d" + (lane.device || ""), lane.device || "host", ""];
    if (by === "thread") {
      const key = lane.thread >= 0 && lane.kind !== "device" ? `t${lane.group}/${lane.thread}` : `t${lane.group}/${lane.kind}`;
      return [key, threads.get(key) || lane.name, id];
    }
    if (by === "none") return ["", "", ""];
    return ["p" + lane.group, rank + (lane.process_name || "process"), id];
  }

  /** {pinned: [item], groups: [{key, title, id, items}], hidden: number of lanes the filter hides,
      out: number of lanes that the filters of all pages leave out}. */
  nx.arrangeLanes = function (meta, choice, scope = nx.EVERYTHING) {
    const every = nx.laneItems(meta);
    const severalRanks = new Set(meta.lanes.map((lane) => lane.rank)).size > 1;
    const all = every.filter((item) => nx.inScope(scope, item));
    for (const [key, before] of choice.moves) {
      const from = all.findIndex((item) => item.key === key);
      if (from < 0) continue;
      const [item] = all.splice(from, 1);
      const to = before === "e" ? all.length : all.findIndex((other) => other.key === before);
      all.splice(to < 0 ? from : to, 0, item);
    }
    const threads = new Map();
    for (const { lane } of all) if (lane && lane.kind === "thread") threads.set(`t${lane.group}/${lane.thread}`, lane.name);
    // All words; a rank is one word with its number.
    const words = (choice.filter.toLowerCase().match(/rank \d+|\S+/g) || []).map((word) => (/^rank \d/.test(word) ? word + " " : word));
    const pinned = choice.pins.map((key) => all.find((item) => item.key === key)).filter(Boolean);
    const groups = new Map();
    let hidden = 0;
    for (const item of all) {
      if (choice.pinned(item.key)) continue;
      if (words.length && !words.every((word) => says(item).includes(word))) {
        hidden++;
        continue;
      }
      const [key, title, id] = groupOf(item, choice.group, threads, severalRanks);
      if (!groups.has(key)) groups.set(key, { key, title, id, items: [] });
      groups.get(key).items.push(item);
    }
    const counters = groups.get("counters");
    if (counters) {
      groups.delete("counters");
      groups.set("counters", counters);
    }
    return { pinned, groups: [...groups.values()], hidden, out: every.length - all.length };
  };

  const PIN = "M5.5 1h5v1.2l-.9.5.5 4.3 2.4 2V10H8.7v4L8 15l-.7-1v-4H3.5V9l2.4-2 .5-4.3-.9-.5z";
  /** A small drawing of a pin. */
  nx.pinIcon = function () {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", PIN);
    svg.append(path);
    return svg;
  };

  (nx.parts = nx.parts || []).push({
    /** After a change of the lanes' choice: draw, and put it into the address. */
    lanesChanged(said) {
      this.view.arrange();
      this.arranged();
      this.counted = null;
      this.settle();
      this.lanesButton();
      if (this.lanesNode) this.listLanes();
      if (said) this.status.textContent = said;
    },
    lanesButton() {
      const hidden = this.view.arranged.hidden + this.view.arranged.out;
      this.lanesOpener.replaceChildren("Lanes", hidden ? el("span", { class: "tl-count" }, `${nx.count(hidden)} hidden`) : "");
    },
    foldLane(key) {
      this.view.lanes.fold(key);
      this.lanesChanged();
    },
    pinLane(key, name) {
      const { lanes } = this.view;
      const room = lanes.pin(key);
      this.lanesChanged(!room ? `at most ${MAX_PINS} lanes can be pinned` : lanes.pinned(key) ? `${name} pinned to the top` : `${name} unpinned`);
    },
    /** Move a lane by one place among its group, or a pinned one among the pinned. */
    shiftLane(key, by) {
      const { lanes, arranged } = this.view;
      const list = lanes.pinned(key) ? arranged.pinned : arranged.groups.find((group) => group.items.some((item) => item.key === key)).items;
      const at = list.findIndex((item) => item.key === key);
      const to = at + by;
      if (to < 0 || to >= list.length) return;
      this.dropLane(key, by < 0 ? list[to].key : to + 1 < list.length ? list[to + 1].key : null, list);
    },
    /** Put a lane before another of its list, null for its end. */
    dropLane(key, before, list) {
      const { lanes } = this.view;
      if (lanes.pinned(key)) {
        const pins = lanes.pins.filter((other) => other !== key);
        pins.splice(before === null ? pins.length : pins.indexOf(before), 0, key);
        lanes.pins = pins;
      } else if (before !== null) {
        lanes.move(key, before);
      } else {
        // After the last of its list: before whatever lane follows that one.
        const all = this.view.order();
        const last = all.indexOf(list[list.length - 1].key);
        lanes.move(key, last + 1 < all.length ? all[last + 1] : "e");
      }
      const item = list.find((each) => each.key === key);
      this.lanesChanged(`${item.name} moved`);
    },

    toggleLanes() {
      if (this.lanesNode) {
        const within = this.lanesNode.contains(document.activeElement);
        this.lanesNode.remove();
        this.lanesNode = null;
        this.lanesOpener.setAttribute("aria-expanded", "false");
        if (within) this.lanesOpener.focus();
        return;
      }
      const { lanes } = this.view;
      const filter = el("input", { type: "search", class: "tl-field", placeholder: "Filter lanes", "aria-label": "Filter lanes", maxlength: "200", spellcheck: "false" });
      filter.value = lanes.filter;
      filter.addEventListener("input", () => {
        lanes.filter = filter.value;
        this.view.scroll = 0;
        this.lanesChanged(`${nx.plural(this.view.arranged.hidden, "lane")} hidden`);
      });
      const group = el("select", { class: "tl-field", "aria-label": "Group lanes by" }, ...Object.entries(nx.GROUPS).map(([key, text]) => el("option", { value: key, selected: key === lanes.group }, "by " + text)));
      group.addEventListener("change", () => {
        lanes.group = group.value;
        this.lanesChanged(`grouped by ${nx.GROUPS[group.value]}`);
      });
      const every = (text, folded) => el("button", { type: "button", class: "tl-button", onclick: () => {
        lanes.foldEvery(folded);
        this.lanesChanged();
      } }, text);
      this.lanesList = el("ul", { class: "tl-lane-list" });
      this.lanesNode = el("div", { class: "tl-lanes", role: "group", "aria-label": "Lanes" },
        el("div", { class: "tl-lanes-head" }, filter, group, every("Fold all", true), every("Unfold all", false),
          el("button", { type: "button", class: "tl-button", onclick: () => {
            this.view.lanes = new nx.LaneChoice();
            filter.value = "";
            group.value = "process";
            this.lanesChanged("lanes as recorded");
          } }, "Reset"),
          el("button", { type: "button", class: "tl-button tl-close", "aria-label": "Close the list of lanes", onclick: () => this.toggleLanes() }, "×")),
        this.lanesList);
      this.lanesNode.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        this.toggleLanes();
      });
      this.main.append(this.lanesNode);
      this.lanesOpener.setAttribute("aria-expanded", "true");
      this.listLanes();
      filter.focus();
    },

    listLanes() {
      const { lanes, arranged } = this.view;
      const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.act : null;
      const rows = [];
      const item = (each) => {
        const { key, name, lane } = each;
        const whole = lane && lane.process_name ? `${name}, ${lane.process_name}` : name;
        const act = (what, label, text, pressed, run) => el("button", { type: "button", class: "tl-button tl-act", "data-act": `${what} ${key}`, "aria-label": `${label}: ${whole}`, title: label, "aria-pressed": pressed === null ? null : String(pressed), onclick: run }, text);
        const pinned = lanes.pinned(key);
        return el("li", {},
          el("span", { class: "tl-lane-name", title: name }, el("bdi", {}, name), lane && lane.process_name ? el("small", {}, ` ${lane.process_name}`) : null),
          el("small", {}, lane ? nx.plural(lane.events, "event") : nx.plural(each.series.n, "sample")),
          act("pin", pinned ? "Unpin" : "Pin to the top", nx.pinIcon(), pinned, () => this.pinLane(key, name)),
          act("up", "Move up", "↑", null, () => this.shiftLane(key, -1)),
          act("down", "Move down", "↓", null, () => this.shiftLane(key, 1)),
          lane && lane.tracks > 1 ? act("fold", lanes.folded(key) ? "Unfold" : "Fold", lanes.folded(key) ? "▸" : "▾", lanes.folded(key), () => this.foldLane(key)) : el("span"));
      };
      const add = (title, items) => {
        if (title) rows.push(el("li", { class: "tl-lane-group" }, title));
        rows.push(...items.slice(0, Math.max(0, LISTED - rows.length)).map(item));
      };
      if (arranged.pinned.length) add("pinned", arranged.pinned);
      for (const group of arranged.groups) add(arranged.groups.length > 1 || arranged.pinned.length ? group.title || "lanes" : "", group.items);
      const total = arranged.pinned.length + arranged.groups.reduce((n, group) => n + group.items.length, 0);
      if (!total) rows.push(el("li", { class: "tl-note" }, "No lane matches."));
      if (arranged.out) rows.push(el("li", { class: "tl-note" }, `${nx.plural(arranged.out, "lane")} left out: the filters of the page show only ${nx.scopeLabel(this.view.scope)}.`));
      if (total > LISTED) rows.push(el("li", { class: "tl-note" }, `The first ${LISTED} of ${nx.count(total)}; filter to find others.`));
      this.lanesList.replaceChildren(...rows);
      if (focus) {
        const same = [...this.lanesList.querySelectorAll("[data-act]")].find((node) => node.dataset.act === focus);
        if (same) same.focus();
      }
    },

    /* ---- dragging a label ---- */

    labelDown(event) {
      const label = event.target.closest && event.target.closest("[data-lane]");
      if (!label || event.button !== 0 || event.target.closest(".tl-pin")) return;
      this.dragging = { key: label.dataset.lane, y: event.clientY, moved: false };
    },
    labelMove(event, container) {
      const drag = this.dragging;
      if (!drag || (!drag.moved && Math.abs(event.clientY - drag.y) < 6)) return;
      if (!drag.moved) {
        drag.moved = true;
        container.setPointerCapture(event.pointerId); // and so no click folds the lane
        drag.line = el("div", { class: "tl-drop" });
        this.stage.append(drag.line);
      }
      const { view } = this;
      const pinned = view.lanes.pinned(drag.key);
      const list = pinned ? view.arranged.pinned : view.arranged.groups.find((group) => group.items.some((item) => item.key === drag.key)).items;
      const box = container.getBoundingClientRect();
      const y = event.clientY - box.top + (pinned ? 0 : view.scroll);
      const others = list.filter((item) => item.key !== drag.key);
      const next = others.find((item) => y < (view.extent.get(item.key)[0] + view.extent.get(item.key)[1]) / 2);
      drag.list = list;
      drag.before = next ? next.key : null;
      const last = others[others.length - 1];
      const at = next ? view.extent.get(next.key)[0] : last ? view.extent.get(last.key)[1] : 0;
      drag.line.style.top = `${Math.round(at - (pinned ? 0 : view.scroll) + box.top - this.stage.getBoundingClientRect().top)}px`;
    },
    labelUp() {
      const drag = this.dragging;
      this.dragging = null;
      if (!drag || !drag.moved) return;
      drag.line.remove();
      const now = drag.list.map((item) => item.key);
      if (now[now.indexOf(drag.key) + 1] !== (drag.before === null ? undefined : drag.before)) this.dropLane(drag.key, drag.before, drag.list);
    },
  });
})();
