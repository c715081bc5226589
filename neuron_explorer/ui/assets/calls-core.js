/* Call trees: what the server sent as nodes, their addresses, and what is selected or searched for. */
(function () {
  "use strict";

  var NUMBERS = ["parent", "self_ns", "total_ns", "backward_ns", "launches", "calls", "line"];
  var TEXTS = ["kind", "label", "name", "file", "place", "code"];
  var MOST_FOUND = 2000;

  /* The payload of a box as a list of nodes that know their children. */
  function read(box) {
    var data = JSON.parse(box.dataset.nodes);
    var columns = data.nodes;
    var nodes = columns.parent.map(function (parent, at) {
      var node = { at: at, children: [], depth: 0 };
      NUMBERS.forEach(function (name) { node[name] = columns[name][at]; });
      TEXTS.forEach(function (name) { node[name] = data.texts[columns[name][at]]; });
      return node;
    });
    nodes.forEach(function (node) {
      if (node.parent < 0) { return; }
      node.depth = nodes[node.parent].depth + 1;
      nodes[node.parent].children.push(node);
    });
    data.nodes = nodes;
    data.backward = nodes[0].backward_ns > 0;
    return data;
  }

  function number(value, digits) {
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  /* A time of the selection as the column shows it: of one step, in the unit of the heading. */
  function time(data, ns) {
    var value = ns / data.steps / data.size;
    return number(value, value >= 100 ? 1 : value >= 10 ? 2 : 3);
  }

  function withUnit(data, ns) { return ns ? time(data, ns) + " " + data.unit + (data.perStep ? " a step" : "") : "0"; }

  function share(part, whole) {
    var percent = whole > 0 ? 100 * part / whole : 0;
    return percent > 0 && percent < 0.05 ? "< 0.1" : number(percent, 1);
  }

  function count(data, value) {
    var each = value / data.steps;
    return number(each, Math.abs(each - Math.round(each)) < 0.05 ? 0 : 1);
  }

  function page(data, name, query) {
    return "/t/" + data.trace + "/" + name + "?" + new URLSearchParams(query).toString();
  }

  /* This page with other keys in the address; empty ones leave it. */
  function here(changes) {
    var now = new URLSearchParams(window.location.search);
    Object.keys(changes).forEach(function (key) {
      if (changes[key] === "") { now.delete(key); } else { now.set(key, changes[key]); }
    });
    var query = now.toString();
    return window.location.pathname + (query ? "?" + query : "");
  }

  function isFrame(node) { return node.kind === "frame" || node.kind === "library"; }

  /* Where a node leads: [text, address, title]. */
  function links(data, node) {
    var found = [];
    if (isFrame(node)) {
      found.push(["source", page(data, "source", node.line > 0 ? { file: node.file, line: node.line } : { file: node.file }), "Its source"]);
      if (node.line > 0) {
        found.push(["timeline", page(data, "timeline", { file: node.file, line: node.line }), "Its events"]);
      }
      var of = data.level === "function" ? { of_file: node.file, of_function: node.name } : { of_file: node.file, of_line: node.line };
      if (data.frames === "all") { of.frames = "all"; }
      found.push(["sandwich", page(data, "bottlenecks", Object.assign({ view: "sandwich" }, of)), "All that called it, and all that it called"]);
    } else if (node.kind === "op") {
      found.push(["timeline", page(data, "timeline", { op: node.name }), "The events of this operator"]);
      if (data.order === "down") {
        found.push(["callers", page(data, "bottlenecks", { view: "tree", order: "up", q: node.name }), "All that called this operator"]);
      }
    }
    return found;
  }

  /* The address that selects a node: its line is in the panel beside the tree. */
  function selecting(node) {
    var line = isFrame(node) && node.line > 0;
    return here({ node: String(node.at), file: line ? node.file : "", line: line ? String(node.line) : "" });
  }

  function chosen(data) {
    var text = new URLSearchParams(window.location.search).get("node");
    var at = text !== null && /^\d{1,6}$/.test(text) ? Number(text) : -1;
    return at >= 0 && at < data.nodes.length ? data.nodes[at] : null;
  }

  function path(data, node) {
    var found = [];
    for (var at = node; at; at = at.parent >= 0 ? data.nodes[at.parent] : null) { found.unshift(at); }
    return found;
  }

  /* Where the tree begins to say something: below the callers that hold all of it. */
  function beginning(data) {
    var node = data.nodes[0];
    while (node.children.length === 1 && node.children[0].children.length) { node = node.children[0]; }
    return node;
  }

  function wanted() {
    var input = document.querySelector("#calls-search input");
    return input ? input.value.trim().toLowerCase() : "";
  }

  /* Nodes whose name, place or code hold the text. */
  function matches(data, text) {
    if (!text) { return []; }
    return data.nodes.filter(function (node) {
      return node.at > 0 && (node.label + "\n" + node.place + "\n" + node.code).toLowerCase().indexOf(text) >= 0;
    }).slice(0, MOST_FOUND);
  }

  function element(name, className, text) {
    var made = document.createElement(name);
    if (className) { made.className = className; }
    if (text !== undefined) { made.textContent = text; }
    return made;
  }

  function link(text, href, title) {
    var made = element("a", "", text);
    made.href = href;
    if (title) { made.title = title; }
    return made;
  }

  /* Boxes are filled once; each hears of changes of the address and of the search until it is gone. */
  var kinds = {};
  var living = [];

  function tell() {
    living = living.filter(function (each) { return each.box.isConnected; });
    living.forEach(function (each) { each.update(); });
  }

  new MutationObserver(function () {
    document.querySelectorAll("[data-calls]:empty").forEach(function (box) {
      var fill = kinds[box.dataset.calls];
      if (!fill) { return; }
      var data = read(box);
      box.removeAttribute("data-nodes");
      living.push({ box: box, update: fill(box, data) });
      tell();
    });
  }).observe(document.documentElement, { childList: true, subtree: true });

  window.addEventListener("popstate", tell);
  window.addEventListener("_dashprivate_pushstate", tell);
  document.addEventListener("input", function (event) {
    if (!event.target.closest || !event.target.closest("#calls-search")) { return; }
    window.history.replaceState(window.history.state, "", here({ q: event.target.value }));
    tell();
  });

  window.nxCalls = {
    kinds: kinds, time: time, withUnit: withUnit, share: share, count: count, links: links, here: here, selecting: selecting,
    chosen: chosen, path: path, beginning: beginning, wanted: wanted, matches: matches, element: element, link: link, isFrame: isFrame,
  };
})();
