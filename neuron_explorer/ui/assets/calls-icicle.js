/* A call tree as boxes: as wide as their time, below the box that they are part of. A click makes one fill the width. */
(function () {
  "use strict";

  var calls = window.nxCalls;
  var ROW = 22;
  var NARROWEST = 1.5;
  var MOST_ROWS = 4000;
  var LEGEND = [["frame", "your code"], ["library", "library code"], ["op", "operator"], ["reason", "no line"], ["more", "smaller nodes"]];

  function fill(box, data) {
    var measure = document.createElement("canvas").getContext("2d");
    var zoomed = null;
    var active = null;
    var found = new Set();
    var widths = new Map();

    var crumbs = calls.element("nav", "icicle-path");
    crumbs.setAttribute("aria-label", "Path of the widest box");
    var about = calls.element("p", "icicle-about");
    about.setAttribute("role", "status");
    var keys = calls.element("div", "icicle-keys");
    LEGEND.forEach(function (each) {
      if (!data.nodes.some(function (node) { return node.kind === each[0]; })) { return; }
      var key = keys.appendChild(calls.element("span", "chart-key"));
      key.append(calls.element("span", "swatch icicle-" + each[0]), each[1]);
    });
    var area = calls.element("div", "icicle-area");
    area.setAttribute("role", "tree");
    area.setAttribute("aria-label", box.dataset.title + ": arrow keys walk, Enter widens");
    box.append(crumbs, about, keys, area);

    function textWidth(text) {
      var known = widths.get(text);
      if (known === undefined) {
        known = measure.measureText(text).width;
        if (widths.size > 20000) { widths.clear(); }
        widths.set(text, known);
      }
      return known;
    }

    /* As much of a text as fits, nothing where that would not be a word. */
    function fitting(text, width) {
      if (textWidth(text) <= width) { return text; }
      if (width < 26) { return ""; }
      var low = 0;
      var high = text.length;
      while (low < high) {
        var middle = (low + high + 1) >> 1;
        if (textWidth(text.slice(0, middle) + "…") <= width) { low = middle; } else { high = middle - 1; }
      }
      return low > 1 ? text.slice(0, low) + "…" : "";
    }

    function label(node) { return node.place && data.level === "line" ? node.label + "  " + node.place : node.label; }

    function said(node) {
      return label(node) + (node.code ? "\n" + node.code : "") + "\n" + calls.withUnit(data, node.total_ns) + ", " +
        calls.share(node.total_ns, data.whole) + " %" + (node.kind === "op" || data.order === "up" || !node.self_ns ? "" : "; self " + calls.withUnit(data, node.self_ns));
    }

    function boxOf(node, left, width, row) {
      var made = calls.element("a", "icicle-node icicle-" + node.kind);
      made.href = calls.selecting(node);
      made.dataset.at = node.at;
      made.setAttribute("role", "treeitem");
      made.setAttribute("aria-level", row + 1);
      made.setAttribute("aria-label", said(node).replace(/\n/g, ", "));
      made.title = said(node);
      made.tabIndex = node === active ? 0 : -1;
      made.style.left = left + "px";
      made.style.width = Math.max(width - 1, 1) + "px";
      made.style.top = row * ROW + "px";
      if (width < 24) { made.classList.add("icicle-narrow"); }
      made.textContent = fitting(label(node), width - 11);
      if (found.size) { made.classList.add(found.has(node.at) ? "calls-match" : "icicle-dim"); }
      return made;
    }

    function draw() {
      if (!zoomed) { return; }
      measure.font = getComputedStyle(area).font;
      var whole = area.clientWidth;
      var made = [];
      var rows = 0;
      var waiting = [[zoomed, 0, whole, 0]];
      while (waiting.length && made.length < MOST_ROWS) {
        var next = waiting.pop();
        var node = next[0], left = next[1], width = next[2], row = next[3];
        made.push(boxOf(node, left, width, row));
        rows = Math.max(rows, row + 1);
        var at = left;
        node.children.forEach(function (child) {
          var part = node.total_ns > 0 ? width * child.total_ns / node.total_ns : 0;
          if (part >= NARROWEST) { waiting.push([child, at, part, row + 1]); }
          at += part;
        });
      }
      area.style.height = rows * ROW + "px";
      var focused = area.contains(document.activeElement);
      area.replaceChildren.apply(area, made);
      if (focused) { focusOn(active); }
    }

    function focusOn(node) {
      var now = node && area.querySelector('[data-at="' + node.at + '"]');
      if (!now) { return; }
      area.querySelectorAll('[tabindex="0"]').forEach(function (each) { each.tabIndex = -1; });
      active = node;
      now.tabIndex = 0;
      now.focus({ preventScroll: true });
      now.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    function isDrawn(node) { return Boolean(node && area.querySelector('[data-at="' + node.at + '"]')); }

    function beside(node, step) {
      if (node === zoomed || node.parent < 0) { return null; }
      var siblings = data.nodes[node.parent].children;
      return siblings[siblings.indexOf(node) + step] || null;
    }

    area.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.metaKey || event.altKey) { return; }
      var node = data.nodes[Number(event.target.dataset.at)];
      if (!node) { return; }
      var to = null;
      if (event.key === "ArrowDown") { to = node.children.find(isDrawn); }
      else if (event.key === "ArrowUp") { to = node === zoomed ? null : data.nodes[node.parent]; }
      else if (event.key === "ArrowRight") { to = beside(node, 1); }
      else if (event.key === "ArrowLeft") { to = beside(node, -1); }
      else if (event.key === "Home") { to = zoomed; }
      else if (event.key === "Backspace" || event.key === "Escape") {
        if (zoomed.parent >= 0) { area.ownerDocument.getElementById("icicle-out").click(); }
      } else { return; }
      event.preventDefault();
      if (isDrawn(to)) { focusOn(to); }
    });

    function tell(node) {
      about.replaceChildren();
      about.append(calls.element("span", "mono", label(node)), " ");
      if (node.code) { about.append(calls.element("code", "calls-code", node.code), " "); }
      about.append(calls.element("span", "icicle-figures", calls.withUnit(data, node.total_ns) + ", " + calls.share(node.total_ns, data.whole) + " %" +
        (data.order === "down" && calls.isFrame(node) ? "; self " + calls.withUnit(data, node.self_ns) : "") + "; launches " + calls.count(data, node.launches) +
        (node.backward_ns ? "; in backward " + calls.share(node.backward_ns, node.total_ns) + " %" : "")));
      calls.links(data, node).forEach(function (each) { about.append(" ", calls.link(each[0], each[1], each[2])); });
      var text = calls.wanted();
      if (text) {
        var ns = 0;
        data.nodes.forEach(function (each) {
          /* Time below a match counts once. */
          if (found.has(each.at) && !calls.path(data, each).slice(0, -1).some(function (above) { return found.has(above.at); })) { ns += each.total_ns; }
        });
        about.append(calls.element("span", "icicle-hits", found.size.toLocaleString("en-US") + (found.size === 1 ? " node matches, " : " nodes match, ") + calls.withUnit(data, ns) + ", " + calls.share(ns, data.whole) + " %"));
      }
    }

    function showPath(node) {
      var path = calls.path(data, node);
      crumbs.replaceChildren();
      var shown = path.length > 7 ? path.slice(0, 2).concat([null], path.slice(-4)) : path;
      shown.forEach(function (each, at) {
        if (at) { crumbs.append(calls.element("span", "muted", "›")); }
        if (!each) { crumbs.append(calls.element("span", "muted", "… " + (path.length - 6) + " more")); return; }
        if (each === node) { var here = crumbs.appendChild(calls.element("span", "icicle-here", each.label)); here.setAttribute("aria-current", "true"); return; }
        var link = calls.link(each.label, calls.selecting(each), label(each));
        if (each === path[path.length - 2]) { link.id = "icicle-out"; }
        crumbs.append(link);
      });
    }

    new ResizeObserver(draw).observe(box);

    return function () {
      var text = calls.wanted();
      found = new Set(calls.matches(data, text).map(function (node) { return node.at; }));
      var now = calls.chosen(data) || calls.beginning(data);
      if (now !== zoomed) { active = now; }
      zoomed = now;
      showPath(now);
      tell(now);
      draw();
    };
  }

  calls.kinds.icicle = fill;
})();
