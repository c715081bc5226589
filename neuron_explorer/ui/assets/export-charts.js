/* Charts out of the page, as the page shows them: by Plotly, or drawn anew from boxes and text. */
(function () {
  "use strict";

  var SCALE = 2;

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  /* Plotly's own PNG goes through a blob: image, which the page's policy forbids; its SVG does not. */
  function ofPlot(plot) {
    var layout = Object.assign({}, plot.layout, {
      paper_bgcolor: colour("--surface"), plot_bgcolor: colour("--surface"), autosize: false,
      font: Object.assign({}, plot.layout.font, { color: colour("--text") }),
    });
    ["xaxis", "yaxis"].forEach(function (axis) {
      if (layout[axis]) { layout[axis] = Object.assign({}, layout[axis], { gridcolor: colour("--line") }); }
    });
    var size = { width: plot.clientWidth, height: plot.clientHeight };
    return window.Plotly.toImage({ data: plot.data, layout: layout }, Object.assign({ format: "svg", scale: 1 }, size))
      .then(function (url) { return Object.assign({ text: decodeURIComponent(url.slice(url.indexOf(",") + 1)) }, size); });
  }

  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;")
      /* Characters that XML does not know would spoil the whole file. */
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  }

  /* The lines of a text node: [text, rectangle]. */
  function lines(node) {
    var range = document.createRange();
    var found = [];
    node.nodeValue.replace(/\S+/g, function (word, at) {
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      var box = range.getBoundingClientRect();
      var last = found[found.length - 1];
      if (last && Math.abs(last.box.top - box.top) < 2) { last.text += " " + word; } else if (box.width) { found.push({ text: word, box: box }); }
      return word;
    });
    return found;
  }

  function ofBoxes(root) {
    var frame = root.getBoundingClientRect();
    var pad = 12;
    var width = Math.ceil(frame.width) + 2 * pad;
    var height = Math.ceil(frame.height) + 2 * pad;
    var parts = ['<rect width="' + width + '" height="' + height + '" fill="' + escaped(colour("--surface")) + '"/>'];
    var number = function (value) { return (Math.round(value * 100) / 100).toString(); };
    (function walk(element) {
      var style = getComputedStyle(element);
      if (style.display === "none" || style.visibility === "hidden" || element.classList.contains("visually-hidden")) { return; }
      var box = element.getBoundingClientRect();
      if (element !== root && !/^(transparent|rgba\(.*, 0\))$/.test(style.backgroundColor) && box.width) {
        parts.push('<rect x="' + number(box.left - frame.left + pad) + '" y="' + number(box.top - frame.top + pad) + '" width="' +
          number(box.width) + '" height="' + number(box.height) + '" rx="' + (parseFloat(style.borderTopLeftRadius) || 0) +
          '" fill="' + escaped(style.backgroundColor) + '"/>');
      }
      element.childNodes.forEach(function (child) {
        if (child.nodeType === Node.ELEMENT_NODE) { walk(child); } else if (child.nodeType === Node.TEXT_NODE) {
          lines(child).forEach(function (line) {
            parts.push('<text x="' + number(line.box.left - frame.left + pad) + '" y="' + number(line.box.bottom - frame.top + pad - line.box.height * 0.22) +
              '" font-size="' + parseFloat(style.fontSize) + '" font-weight="' + style.fontWeight + '" font-family="' +
              escaped(style.fontFamily) + '" fill="' + escaped(style.color) + '">' + escaped(line.text) + "</text>");
          });
        }
      });
    })(root);
    return { width: width, height: height,
      text: '<svg xmlns="http://www.w3.org/2000/svg" width="' + width + '" height="' + height + '" viewBox="0 0 ' + width + " " + height + '">' + parts.join("") + "</svg>" };
  }

  function asPng(drawing) {
    return new Promise(function (resolve, reject) {
      var image = new Image();
      image.onload = function () {
        var canvas = document.createElement("canvas");
        canvas.width = drawing.width * SCALE;
        canvas.height = drawing.height * SCALE;
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob(function (blob) { if (blob) { resolve(blob); } else { reject(new Error("no image")); } }, "image/png");
      };
      image.onerror = function () { reject(new Error("no image")); };
      image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing.text);
    });
  }

  document.addEventListener("click", function (event) {
    var target = event.target.closest ? event.target : event.target.parentElement;
    var button = target && target.closest("[data-export=png], [data-export=svg]");
    var box = button && button.closest(".exportable");
    if (!box) { return; }
    var form = button.dataset.export;
    var plot = box.querySelector(".js-plotly-plot");
    /* A chart on a canvas draws itself once more, as SVG. */
    var own = Array.prototype.find.call(box.querySelectorAll(".export-drawn"), function (each) { return each.nxDrawing; });
    var drawing = plot && window.Plotly ? ofPlot(plot) : own ? Promise.resolve(own.nxDrawing()) : Promise.resolve(ofBoxes(box.querySelector(".export-body")));
    drawing.then(function (made) {
      return form === "svg" ? new Blob([made.text], { type: "image/svg+xml" }) : asPng(made);
    }).then(function (blob) { window.nxExport.save(blob, box.dataset.exportName + "." + form); },
      function () { window.nxExport.tell(button, "not possible here"); });
  });
})();
