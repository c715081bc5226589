/* A call tree as a table whose rows open: arrow keys walk it as file managers' trees are walked. */
(function () {
  "use strict";

  var calls = window.nxCalls;
  var FIRST_ROWS = 28;
  var FIRST_SHARE = 0.03;
  var ALWAYS_SHARE = 0.25;
  var INDENT = 13;
  var LEAST_INDENT = 4;
  var MOST_INDENTED = 300;
  var LONG_CHAIN = 6;
  var MOST_ROWS = 300;
  var MOST_OPENED = 200;

  /* The heaviest nodes are open at first, until the rows fill a screen. */
  function openHeaviest(top) {
    var open = new Set([top.at]);
    var rows = top.children.length;
    var waiting = top.children.slice();
    while (waiting.length) {
      waiting.sort(function (a, b) { return b.total_ns - a.total_ns; });
      var node = waiting.shift();
      if (node.total_ns < (rows < FIRST_ROWS ? FIRST_SHARE : ALWAYS_SHARE) * top.total_ns) { break; }
      if (!node.children.length) { continue; }
      open.add(node.at);
      rows += node.children.length;
      waiting = waiting.concat(node.children);
    }
    return open;
  }

  function fill(box, data) {
    var rows = calls.rows;
    var top = data.nodes[0];
    var hidesRoot = box.dataset.root === "hidden";
    var columns = rows.columnsOf(data, hidesRoot);
    var open = openHeaviest(top);
    var most = MOST_ROWS;
    var found = new Set();
    var selected = null;
    var active = hidesRoot ? (top.children[0] || top).at : 0;
    var searched = "";
    /* Callers that hold all of it, one in the other, are one row until it is opened. */
    var folded = new Set();
    var chain = hidesRoot ? [] : calls.path(data, calls.beginning(data)).slice(2, -1);
    if (chain.length >= LONG_CHAIN) { chain.forEach(function (node) { folded.add(node.at); }); }

    var tools = calls.element("div", "calls-tools");
    if (box.dataset.heading) { tools.appendChild(calls.element("h2", "calls-heading", box.dataset.heading)); }
    function tool(text, action) {
      var button = calls.element("button", "button", text);
      button.type = "button";
      button.addEventListener("click", function () { action(); draw(); });
      tools.appendChild(button);
    }
    tool("Open all", function () { data.nodes.forEach(function (node) { if (node.children.length) { open.add(node.at); } }); });
    tool("Close all", function () { open = new Set([top.at]); });
    var status = calls.element("span", "calls-found muted");
    status.setAttribute("role", "status");
    tools.appendChild(status);

    var table = calls.element("table", "table calls-table");
    table.setAttribute("role", "treegrid");
    table.setAttribute("aria-label", box.dataset.title);
    var body = calls.element("tbody");
    body.setAttribute("role", "rowgroup");
    table.append(rows.headOf(columns), body);
    box.append(tools, table);

    function depthOf(node) { return node.depth - (hidesRoot ? 1 : 0); }

    function indentOf(node) {
      return depthOf(node) - (folded.size && node.depth > chain[0].depth ? folded.size - 1 : 0);
    }

    /* Visible nodes in order, each with its place among its siblings. */
    function visible() {
      var shown = [];
      var waiting = hidesRoot ? [] : [{ node: top, at: 1, of: 1 }];
      function children(node) {
        for (var i = node.children.length - 1; i >= 0; i -= 1) { waiting.push({ node: node.children[i], at: i + 1, of: node.children.length }); }
      }
      if (hidesRoot) { children(top); }
      while (waiting.length) {
        var next = waiting.pop();
        var inside = folded.has(next.node.at);
        if (!inside || next.node === chain[0]) { shown.push(next); }
        if (inside || open.has(next.node.at)) { children(next.node); }
      }
      return shown;
    }

    function draw() {
      var shown = visible();
      var position = shown.findIndex(function (each) { return each.node.at === active; });
      if (position < 0) { position = 0; active = shown.length ? shown[0].node.at : 0; }
      if (position >= most) { most = position + MOST_ROWS; }
      var deepest = 1;
      var made = shown.slice(0, most).map(function (each) {
        var node = each.node;
        var state = { level: depthOf(node) + 1, depth: depthOf(node), indent: indentOf(node), at: each.at, of: each.of, open: open.has(node.at),
          match: found.has(node.at), selected: selected === node, active: node.at === active };
        deepest = Math.max(deepest, state.indent);
        if (!folded.has(node.at)) { return rows.rowOf(data, columns, node, state); }
        var row = rows.standIn(columns, "… " + folded.size + " callers, each with all of it", state);
        row.dataset.at = node.at;
        return row;
      });
      if (shown.length > most) {
        var last = rows.standIn(columns, (shown.length - most).toLocaleString("en-US") + " more rows", { level: 1, depth: 0, indent: 0, active: false });
        last.dataset.rest = "";
        made.push(last);
      }
      table.style.setProperty("--indent", Math.max(LEAST_INDENT, Math.min(INDENT, MOST_INDENTED / deepest)) + "px");
      body.replaceChildren.apply(body, made);
    }

    function rowAt(at) { return body.querySelector('[data-at="' + at + '"]'); }

    function show(row, focus) {
      if (!row) { return; }
      if (focus) { row.focus({ preventScroll: true }); }
      row.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    /* One row can be reached by Tab, and its links. */
    function activate(row) {
      var before = rowAt(active);
      [[before, -1], [row, 0]].forEach(function (each) {
        if (!each[0]) { return; }
        each[0].tabIndex = each[1];
        each[0].querySelectorAll(".calls-links a").forEach(function (link) { link.tabIndex = each[1]; });
      });
      if (row.dataset.at !== undefined) { active = Number(row.dataset.at); }
    }

    function toggle(node, to) {
      if (!node.children.length || open.has(node.at) === to) { return; }
      if (to) { open.add(node.at); } else { open.delete(node.at); }
      draw();
    }

    /* Rows that stand for others show them; the row that is there then, else null. */
    function opened(row) {
      var at = row.sectionRowIndex;
      if (row.dataset.rest !== undefined) { most += MOST_ROWS; } else if (folded.has(Number(row.dataset.at))) { folded = new Set(); } else { return null; }
      draw();
      return body.rows[at] || null;
    }

    function above(node) { return rowAt(folded.has(node.parent) ? chain[0].at : node.parent); }

    body.addEventListener("click", function (event) {
      var row = event.target.closest("tr");
      if (!row || event.target.closest("a")) { return; }
      var now = opened(row);
      if (!now) {
        var node = data.nodes[Number(row.dataset.at)];
        toggle(node, !open.has(node.at));
        now = rowAt(node.at);
      }
      activate(now);
      show(now, true);
    });

    body.addEventListener("focusin", function (event) {
      var row = event.target.closest("tr");
      if (row && row.tabIndex !== 0) { activate(row); }
    });

    function moved(key, row) {
      var node = data.nodes[Number(row.dataset.at)];
      var all = body.rows;
      var at = row.sectionRowIndex;
      if (key === "ArrowDown") { return all[at + 1] || row; }
      if (key === "ArrowUp") { return all[at - 1] || row; }
      if (key === "Home") { return all[0]; }
      if (key === "End") { return all[all.length - 1]; }
      if (key === "Enter" || key === "ArrowRight") {
        var now = opened(row);
        if (now) { return now; }
      }
      if (!node) { return row; }
      if (key === "ArrowRight") {
        if (!node.children.length || open.has(node.at)) { return node.children.length ? all[at + 1] || row : row; }
        toggle(node, true);
      } else if (key === "ArrowLeft") {
        if (folded.has(node.at) || !open.has(node.at) || !node.children.length) { return above(node) || row; }
        toggle(node, false);
      } else if (key === "*") {
        (node.parent >= 0 ? data.nodes[node.parent].children : [node]).forEach(function (each) { if (each.children.length) { open.add(each.at); } });
        draw();
      } else if (key === "Enter") {
        var link = row.querySelector("a.calls-label");
        if (link) { link.click(); } else { toggle(node, !open.has(node.at)); }
      } else { return null; }
      return rowAt(node.at);
    }

    body.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName !== "TR") { return; }
      var to = moved(event.key, event.target);
      if (!to) { return; }
      event.preventDefault();
      activate(to);
      show(to, true);
    });

    function reveal(node) {
      var path = calls.path(data, node);
      if (path.some(function (each) { return each === node && folded.has(each.at); })) { folded = new Set(); }
      path.slice(0, -1).forEach(function (each) { open.add(each.at); });
    }

    /* What is selected and searched for is in the address. */
    return function () {
      var now = hidesRoot ? null : calls.chosen(data);
      var other = now !== selected;
      selected = now;
      if (other && now) {
        reveal(now);
        active = now.at;
      }
      var text = calls.wanted();
      if (text !== searched) {
        searched = text;
        var hits = calls.matches(data, text);
        found = new Set(hits.map(function (node) { return node.at; }));
        hits.slice(0, MOST_OPENED).forEach(reveal);
        status.textContent = text ? hits.length.toLocaleString("en-US") + (hits.length === 1 ? " node matches" : " nodes match") : "";
        if (hits.length) {
          active = hits[0].at;
          draw();
          show(rowAt(active), false);
          return;
        }
      }
      var inside = body.contains(document.activeElement);
      draw();
      if (inside || (other && now)) { show(rowAt(active), inside); }
    };
  }

  calls.kinds.tree = fill;
})();
