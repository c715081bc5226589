/* Timeline: the state that a link carries. Only the timeline's own keys of the query are touched. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const FILTERS = ["q", "op", "line", "module", "shape", "kind", "sql"]; // phase is every page's: timeline-scope.js
  const LANES = ["lanes", "group", "pin", "fold", "order"];
  nx.COLOURS = { kind: "phase and kind", op: "operator", line: "line", module: "module", cost: "self time" };
  const MAX_MARKS = 9;

  function whole(text) {
    return /^\d{1,16}$/.test(text || "") ? Number(text) : null;
  }

  /** What the address asks for. */
  nx.readState = function (search) {
    const query = new URLSearchParams(search);
    const filter = {};
    for (const key of FILTERS) {
      const value = (query.get(key) || "").slice(0, 500);
      if (value) filter[key] = value;
    }
    // Other pages give file and line apart.
    const file = query.get("file");
    if (file && /^\d{1,9}$/.test(filter.line || "")) filter.line = `${file.slice(0, 480)}:${filter.line}`;
    const from = whole(query.get("from"));
    const to = whole(query.get("to"));
    const marks = (query.get("marks") || "").split(",").map((part) => part.split("-").map(whole)).filter((m) => m.length === 2 && m[0] !== null && m[1] !== null);
    const keys = (text) => text.split(",").filter((key) => /^(\d{1,10}|c\d{1,3})$/.test(key)).slice(0, 4096);
    const fold = query.get("fold") || "";
    const moves = (query.get("order") || "").split(",").map((part) => part.split(".")).filter(([key, before]) => keys(key).length && (before === "e" || keys(before || "").length));
    const span = (query.get("span") || "").split("-").map(whole);
    const colour = query.get("colour");
    return {
      lanes: { filter: (query.get("lanes") || "").slice(0, 200), group: query.get("group"), pins: keys(query.get("pin") || ""),
        foldAll: fold.startsWith("*"), except: keys(fold), moves },
      colour: colour in nx.COLOURS ? colour : "kind",
      span: span.length === 2 && span[0] !== null && span[1] !== null && span[1] > span[0] ? span : null,
      window: from !== null && to !== null && to > from ? [from, to] : null,
      event: /^\d{1,19}$/.test(query.get("event") || "") ? query.get("event") : null,
      step: /^\d{1,9}$/.test(query.get("step") || "") ? query.get("step") : null,
      filter,
      marks: marks.slice(0, MAX_MARKS),
    };
  };

  /** The address of the state, leaving the keys of others as they are. */
  nx.writeState = function (search, state) {
    const query = new URLSearchParams(search);
    for (const key of [...FILTERS, ...LANES, "file", "step", "from", "to", "event", "marks", "span", "colour"]) query.delete(key);
    for (const [key, value] of Object.entries(state.filter)) query.set(key, value);
    if (state.window) {
      query.set("from", String(Math.floor(state.window[0])));
      query.set("to", String(Math.ceil(state.window[1])));
    }
    if (state.event) query.set("event", state.event);
    if (state.marks.length) query.set("marks", state.marks.map((m) => m.map(Math.round).join("-")).join(","));
    if (state.span) query.set("span", state.span.map(Math.round).join("-"));
    if (state.colour !== "kind") query.set("colour", state.colour);
    const { lanes } = state;
    if (lanes.filter) query.set("lanes", lanes.filter);
    if (lanes.group !== "process") query.set("group", lanes.group);
    if (lanes.pins.length) query.set("pin", lanes.pins.join());
    if (lanes.foldAll || lanes.except.size) query.set("fold", [...(lanes.foldAll ? ["*"] : []), ...lanes.except].join());
    if (lanes.moves.length) query.set("order", lanes.moves.map((move) => move.join(".")).join());
    const text = query.toString();
    return text ? "?" + text : "";
  };

  nx.filterLabel = function (filter) {
    return Object.entries(filter).map(([key, value]) => (key === "q" ? value : `${key} ${value}`)).join(", ");
  };
})();
