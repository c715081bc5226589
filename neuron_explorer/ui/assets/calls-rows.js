/* Rows of a call tree: the columns, and a node as one row. What is open or selected is the tree's own business. */
(function () {
  "use strict";

  var calls = window.nxCalls;
  var DEEPEST = 60;

  /* Heading, class, and the text of a node's cell; null for cells that are more than text. */
  function columnsOf(data, hidesRoot) {
    var up = data.order === "up";
    var each = data.perStep ? " a step" : "";
    var columns = [
      [up ? (hidesRoot ? "caller" : "what ran, and its callers") : "function or operator", "calls-name", null],
      ["total" + each + ", " + data.unit, "num", function (node) { return calls.time(data, node.total_ns); }],
      ["share, %", "num calls-share", null],
    ];
    if (!up) { columns.push(["self" + each + ", " + data.unit, "num", function (node) { return node.self_ns ? calls.time(data, node.self_ns) : "–"; }]); }
    columns.push(["launches" + each, "num calls-wide", function (node) { return calls.count(data, node.launches); }]);
    columns.push(["calls" + each, "num calls-wide", function (node) { return calls.count(data, node.calls); }]);
    if (data.backward) {
      columns.push(["backward, %", "num calls-wide", function (node) { return node.backward_ns ? calls.share(node.backward_ns, node.total_ns) : "–"; }]);
    }
    columns.push(["go to", "calls-links", null]);
    return columns;
  }

  function headOf(columns) {
    var head = calls.element("thead");
    head.setAttribute("role", "rowgroup");
    var row = head.appendChild(calls.element("tr"));
    row.setAttribute("role", "row");
    [["depth", null]].concat(columns).forEach(function (column) {
      var cell = calls.element("th", column[1] || "", column[0]);
      cell.setAttribute("role", "columnheader");
      cell.scope = "col";
      cell.hidden = column[1] === null; /* for exports only: the row has it as its level */
      row.appendChild(cell);
    });
    return head;
  }

  function cellOf(row, className) {
    var cell = row.appendChild(calls.element("td", className || ""));
    cell.setAttribute("role", "gridcell");
    return cell;
  }

  function emptyRow(className, level, depth) {
    var row = calls.element("tr", className);
    row.setAttribute("role", "row");
    row.setAttribute("aria-level", level);
    var cell = cellOf(row);
    cell.hidden = true;
    cell.textContent = String(depth);
    return row;
  }

  function lineOf(cell, indent, sign) {
    var line = cell.appendChild(calls.element("div", "calls-line"));
    line.style.setProperty("--depth", Math.min(indent, DEEPEST));
    var mark = line.appendChild(calls.element("span", "calls-toggle"));
    mark.setAttribute("aria-hidden", "true");
    mark.dataset.sign = sign;
    return line;
  }

  function name(line, node) {
    var frame = calls.isFrame(node);
    if (frame && node.line > 0) {
      var link = calls.link(node.label, calls.selecting(node), node.label + "  " + node.place);
      link.className = "calls-label";
      link.tabIndex = -1;
      line.append(link);
    } else {
      var label = calls.element("span", node.kind === "op" ? "mono calls-label" : "calls-label", node.label);
      label.title = node.label;
      line.append(label);
    }
    if (node.place) { line.append(" ", calls.element("span", "mono muted calls-place", node.place)); }
    if (node.code) {
      var code = calls.element("code", "calls-code", node.code);
      code.title = node.code;
      line.append(" ", code);
    }
  }

  function share(cell, data, node) {
    var part = data.whole > 0 ? 100 * node.total_ns / data.whole : 0;
    var holder = cell.appendChild(calls.element("div", "share-cell"));
    var bar = holder.appendChild(calls.element("span", "share-bar"));
    bar.style.width = Math.max(0, Math.min(100, part)) + "%";
    holder.appendChild(calls.element("span", "share-number", calls.share(node.total_ns, data.whole)));
  }

  function links(cell, data, node, tabIndex) {
    calls.links(data, node).forEach(function (each) {
      var link = calls.link(each[0], each[1], each[2]);
      link.tabIndex = tabIndex;
      link.setAttribute("aria-label", each[0] + " of " + node.label);
      cell.append(link, " ");
    });
  }

  /* shown: { level, depth, indent, at, of, open, match, selected, active }. */
  function rowOf(data, columns, node, shown) {
    var row = emptyRow("calls-row calls-" + node.kind, shown.level, shown.depth);
    row.dataset.at = node.at;
    row.setAttribute("aria-posinset", shown.at);
    row.setAttribute("aria-setsize", shown.of);
    if (node.children.length) { row.setAttribute("aria-expanded", String(shown.open)); }
    if (shown.match) { row.classList.add("calls-match"); }
    if (shown.selected) { row.setAttribute("aria-selected", "true"); }
    row.tabIndex = shown.active ? 0 : -1;
    columns.forEach(function (column) {
      var cell = cellOf(row, column[1]);
      if (column[2]) { cell.textContent = column[2](node); }
      else if (column[1] === "calls-name") { name(lineOf(cell, shown.indent, node.children.length ? (shown.open ? "▾" : "▸") : ""), node); }
      else if (column[1] === "calls-links") { links(cell, data, node, row.tabIndex); }
      else { share(cell, data, node); }
    });
    return row;
  }

  /* A row that stands for others, with a button that shows them. */
  function standIn(columns, text, shown) {
    var row = emptyRow("calls-row", shown.level, shown.depth);
    row.tabIndex = shown.active ? 0 : -1;
    columns.forEach(function (column, at) {
      var cell = cellOf(row, column[1]);
      if (at) { return; }
      var button = calls.element("button", "calls-fold", text);
      button.type = "button";
      button.tabIndex = -1;
      lineOf(cell, shown.indent, "").append(button);
    });
    return row;
  }

  window.nxCalls.rows = { columnsOf: columnsOf, headOf: headOf, rowOf: rowOf, standIn: standIn };
})();
