/* A call tree as a table whose rows open: arrow keys walk it as file managers' trees are walked. */
(function () {
  "use strict";

  var calls = window.nxCalls;
  var FIRST_ROWS = 28;
  var FIRST_SHARE = 0.03;
  var ALWAYS_SHARE = 0.25;
  var DEEPEST = 60;
  var INDENT = 13;
  var LEAST_INDENT = 4;
  var MOST_INDENTED = 300;
  var LONG_CHAIN = 6;

  /* The heaviest nodes are open at first, until the rows fill a screen. */
  function openHeaviest(data, top) {
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
    var top = data.nodes[0];
    var hidesRoot = box.dataset.root === "hidden";
    var open = openHeaviest(data, top);
    var found = new Set();
    var selected = null;
    var active = hidesRoot ? (top.children[0] || top).at : 0;
    var searched = "";
    /* Callers that hold all of it, one in the other, are one row until it is opened. */
    var folded = new Set();
    var chain = hidesRoot ? [] : calls.path(data, calls.beginning(data)).slice(2, -1);
    if (chain.length >= LONG_CHAIN) { chain.forEach(function (node) { folded.add(node.at); }); }

    var up = data.order === "up";
    var each = data.perStep ? " a step, " : ", ";
    var columns = [
      [up ? (hidesRoot ? "caller" : "what ran, and its callers") : "function or operator", "calls-name", null],
      ["total" + each + data.unit, "num", function (node) { return calls.time(data, node.total_ns); }],
      ["share, %", "num calls-share", null],
    ];
    if (!up) { columns.push(["self" + each + data.unit, "num", function (node) { return node.self_ns ? calls.time(data, node.self_ns) : "–"; }]); }
    columns.push(["launches" + (data.perStep ? " a step" : ""), "num calls-wide", function (node) { return calls.count(data, node.launches); }]);
    columns.push(["calls" + (data.perStep ? " a step" : ""), "num calls-wide", function (node) { return calls.count(data, node.calls); }]);
    if (data.backward) {
      columns.push(["backward, %", "num calls-wide", function (node) { return node.backward_ns ? calls.share(node.backward_ns, node.total_ns) : "–"; }]);
    }
    columns.push(["go to", "calls-links", null]);

    var tools = calls.element("div", "calls-tools");
    if (box.dataset.heading) { tools.appendChild(calls.element("h2", "calls-heading", box.dataset.heading)); }
    var status = calls.element("span", "calls-found muted");
    status.setAttribute("role", "status");
    [["Open all", function () { data.nodes.forEach(function (node) { if (node.children.length) { open.add(node.at); } }); }],
      ["Close all", function () { open = new Set([top.at]); }]].forEach(function (choice) {
      var button = calls.element("button", "button", choice[0]);
      button.type = "button";
      button.addEventListener("click", function () { choice[1](); draw(false); });
      tools.appendChild(button);
    });
    tools.appendChild(status);

    var table = calls.element("table", "table calls-table");
    table.setAttribute("role", "treegrid");
    table.setAttribute("aria-label", box.dataset.title);
    var head = calls.element("thead");
    head.setAttribute("role", "rowgroup");
    var headRow = head.appendChild(calls.element("tr"));
    headRow.setAttribute("role", "row");
    [["depth", null, null]].concat(columns).forEach(function (column) {
      var cell = calls.element("th", column[1] || "", column[0]);
      cell.setAttribute("role", "columnheader");
      cell.scope = "col";
      cell.hidden = column[1] === null; /* for exports only: the row has it as its level */
      headRow.appendChild(cell);
    });
    var body = calls.element("tbody");
    body.setAttribute("role", "rowgroup");
    table.append(head, body);
    box.append(tools, table);

    function foldRow(node) {
      var row = calls.element("tr", "calls-row");
      row.setAttribute("role", "row");
      row.setAttribute("aria-level", node.depth + 1);
      row.dataset.at = node.at;
      row.tabIndex = node.at === active ? 0 : -1;
      var depth = cellOf(row);
      depth.hidden = true;
      depth.textContent = String(node.depth);
      columns.forEach(function (column, at) {
        var cell = cellOf(row, column[1]);
        if (at) { return; }
        var line = cell.appendChild(calls.element("div", "calls-line"));
        line.style.setProperty("--depth", node.depth);
        line.appendChild(calls.element("span", "calls-toggle", ""));
        var button = calls.element("button", "calls-fold", "… " + folded.size + " callers, each with all of it");
        button.type = "button";
        button.tabIndex = -1;
        line.appendChild(button);
      });
      return row;
    }

    function unfold() {
      folded = new Set();
      draw(false);
    }

    function cellOf(row, className) {
      var cell = row.appendChild(calls.element("td", className || ""));
      cell.setAttribute("role", "gridcell");
      return cell;
    }

    function rowOf(node, place) {
      var row = calls.element("tr", "calls-row calls-" + node.kind);
      row.dataset.at = node.at;
      row.setAttribute("role", "row");
      row.setAttribute("aria-level", node.depth + (hidesRoot ? 0 : 1));
      row.setAttribute("aria-posinset", place.at);
      row.setAttribute("aria-setsize", place.of);
      if (node.children.length) { row.setAttribute("aria-expanded", String(open.has(node.at))); }
      if (found.has(node.at)) { row.classList.add("calls-match"); }
      if (selected === node) { row.setAttribute("aria-selected", "true"); }
      row.tabIndex = node.at === active ? 0 : -1;
      var depth = node.depth - (hidesRoot ? 1 : 0);
      var indent = shownDepth(node);
      var export_ = cellOf(row);
      export_.hidden = true;
      export_.textContent = String(depth);
      columns.forEach(function (column) {
        var cell = cellOf(row, column[1]);
        if (column[2]) { cell.textContent = column[2](node); return; }
        if (column[1] === "calls-name") { name(cell, node, indent); } else if (column[1] === "calls-links") { linksOf(cell, node, row); } else { shareOf(cell, node); }
      });
      return row;
    }

    function shownDepth(node) {
      return node.depth - (hidesRoot ? 1 : 0) - (folded.size && node.depth > chain[0].depth ? folded.size - 1 : 0);
    }

    function name(cell, node, depth) {
      var line = cell.appendChild(calls.element("div", "calls-line"));
      line.style.setProperty("--depth", Math.min(depth, DEEPEST));
      var sign = line.appendChild(calls.element("span", "calls-toggle", ""));
      sign.setAttribute("aria-hidden", "true");
      sign.dataset.sign = node.children.length ? (open.has(node.at) ? "▾" : "▸") : "";
      if (calls.isFrame(node) && node.line > 0) {
        var link = calls.link(node.label, calls.selecting(node), node.label + "  " + node.place);
        link.className = "calls-label";
        link.tabIndex = -1;
        line.appendChild(link);
        line.appendChild(document.createTextNode(" "));
        line.appendChild(calls.element("span", "mono muted calls-place", node.place));
        if (node.code) {
          line.appendChild(document.createTextNode(" "));
          var code = line.appendChild(calls.element("code", "calls-code", node.code));
          code.title = node.code;
        }
      } else {
        var plain = line.appendChild(calls.element("span", node.kind === "op" ? "mono calls-label" : "calls-label", node.label));
        plain.title = node.label;
        if (node.place) { line.append(" ", calls.element("span", "mono muted calls-place", node.place)); }
      }
    }

    function linksOf(cell, node, row) {
      calls.links(data, node).forEach(function (each) {
        var link = calls.link(each[0], each[1], each[2]);
        link.tabIndex = row.tabIndex;
        link.setAttribute("aria-label", each[0] + " of " + node.label);
        cell.append(link, " ");
      });
    }

    function shareOf(cell, node) {
      var part = data.whole > 0 ? 100 * node.total_ns / data.whole : 0;
      var holder = cell.appendChild(calls.element("div", "share-cell"));
      var bar = holder.appendChild(calls.element("span", "share-bar"));
      bar.style.width = Math.max(0, Math.min(100, part)) + "%";
      holder.appendChild(calls.element("span", "share-number", calls.share(node.total_ns, data.whole)));
    }

    /* Visible nodes in order, each with its place among its siblings. */
    function visible() {
      var rows = [];
      var waiting = hidesRoot ? [] : [{ node: top, at: 1, of: 1 }];
      function children(node) {
        for (var i = node.children.length - 1; i >= 0; i -= 1) { waiting.push({ node: node.children[i], at: i + 1, of: node.children.length }); }
      }
      if (hidesRoot) { children(top); }
      while (waiting.length) {
        var next = waiting.pop();
        if (folded.has(next.node.at)) {
          if (next.node === chain[0]) { rows.push(next); }
          children(next.node);
          continue;
        }
        rows.push(next);
        if (open.has(next.node.at)) { children(next.node); }
      }
      return rows;
    }

    function draw(focus) {
      var rows = visible();
      if (!rows.some(function (row) { return row.node.at === active; })) { active = rows.length ? rows[0].node.at : 0; }
      var deepest = rows.reduce(function (most, row) { return Math.max(most, Math.min(shownDepth(row.node), DEEPEST)); }, 1);
      table.style.setProperty("--indent", Math.max(LEAST_INDENT, Math.min(INDENT, MOST_INDENTED / deepest)) + "px");
      body.replaceChildren.apply(body, rows.map(function (row) { return folded.has(row.node.at) ? foldRow(row.node) : rowOf(row.node, row); }));
      if (focus) { show(active, true); }
    }

    function rowAt(at) { return body.querySelector('[data-at="' + at + '"]'); }

    function show(at, focus) {
      var row = rowAt(at);
      if (!row) { return; }
      if (focus) { row.focus({ preventScroll: true }); }
      row.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    function activate(at) {
      var before = rowAt(active);
      if (before) { tabbable(before, -1); }
      active = at;
      var row = rowAt(at);
      if (row) { tabbable(row, 0); }
    }

    function tabbable(row, index) {
      row.tabIndex = index;
      row.querySelectorAll(".calls-links a").forEach(function (each) { each.tabIndex = index; });
    }

    function toggle(node, to) {
      if (!node.children.length || open.has(node.at) === to) { return; }
      if (to) { open.add(node.at); } else { open.delete(node.at); }
      draw(false);
    }

    body.addEventListener("click", function (event) {
      var row = event.target.closest("tr");
      if (!row) { return; }
      var node = data.nodes[Number(row.dataset.at)];
      activate(node.at);
      if (event.target.closest("a")) { return; }
      if (folded.has(node.at)) { unfold(); show(node.at, true); return; }
      toggle(node, !open.has(node.at));
      show(node.at, true);
    });

    body.addEventListener("focusin", function (event) {
      var row = event.target.closest("tr");
      if (row && Number(row.dataset.at) !== active) { activate(Number(row.dataset.at)); }
    });

    body.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName !== "TR") { return; }
      var rows = Array.from(body.rows);
      var at = rows.indexOf(event.target);
      var node = data.nodes[Number(event.target.dataset.at)];
      var to = null;
      if (folded.has(node.at) && (event.key === "ArrowRight" || event.key === "Enter")) {
        unfold();
        to = rowAt(node.at);
      } else if (event.key === "ArrowDown") { to = rows[at + 1]; }
      else if (event.key === "ArrowUp") { to = rows[at - 1]; }
      else if (event.key === "Home") { to = rows[0]; }
      else if (event.key === "End") { to = rows[rows.length - 1]; }
      else if (event.key === "ArrowRight") {
        if (node.children.length && !open.has(node.at)) { toggle(node, true); to = rowAt(node.at); } else if (node.children.length) { to = rows[at + 1]; }
      } else if (event.key === "ArrowLeft") {
        if (open.has(node.at) && node.children.length) { toggle(node, false); to = rowAt(node.at); } else { to = rowAt(folded.has(node.parent) ? chain[0].at : node.parent); }
      } else if (event.key === "*") {
        (node.parent >= 0 ? data.nodes[node.parent].children : [node]).forEach(function (each) { if (each.children.length) { open.add(each.at); } });
        draw(false);
        to = rowAt(node.at);
      } else if (event.key === "Enter") {
        var link = event.target.querySelector("a.calls-label");
        if (link) { link.click(); } else { toggle(node, !open.has(node.at)); to = rowAt(node.at); }
      } else { return; }
      event.preventDefault();
      if (to) { activate(Number(to.dataset.at)); show(active, true); }
    });

    /* What is selected and searched for is in the address. */
    return function () {
      var now = hidesRoot ? null : calls.chosen(data);
      var moved = now !== selected;
      selected = now;
      if (moved && now) {
        if (folded.has(now.at)) { folded = new Set(); }
        calls.path(data, now).slice(0, -1).forEach(function (each) { open.add(each.at); });
        active = now.at;
      }
      var text = calls.wanted();
      if (text !== searched) {
        searched = text;
        var hits = calls.matches(data, text);
        found = new Set(hits.map(function (node) { return node.at; }));
        if (hits.some(function (hit) { return folded.has(hit.at); })) { folded = new Set(); }
        hits.slice(0, 200).forEach(function (hit) { calls.path(data, hit).slice(0, -1).forEach(function (each) { open.add(each.at); }); });
        status.textContent = text ? hits.length.toLocaleString("en-US") + (hits.length === 1 ? " node matches" : " nodes match") : "";
        if (hits.length) { draw(false); show(hits[0].at, false); return; }
      }
      var inside = body.contains(document.activeElement);
      draw(inside);
      if (moved && now && !inside) { show(now.at, false); }
    };
  }

  calls.kinds.tree = fill;
})();
