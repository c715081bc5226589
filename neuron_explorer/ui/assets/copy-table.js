/* The rows that a grid shows as a Markdown table on the clipboard. */
(function () {
  "use strict";

  var MOST = 1000;

  function cell(value) {
    if (value === null || value === undefined) { return ""; }
    return String(value)
      .replace(/[\r\n\t]+/g, " ")
      .replace(/[\\`*_{}[\]()#+!|~]/g, "\\$&")
      .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function table(api) {
    var columns = api.getAllDisplayedColumns().filter(function (column) { return column.getColDef().headerName; });
    var lines = [
      "| " + columns.map(function (column) { return cell(column.getColDef().headerName); }).join(" | ") + " |",
      "| " + columns.map(function (column) { return column.getColDef().type === "rightAligned" ? "---:" : "---"; }).join(" | ") + " |",
    ];
    var rows = 0;
    api.forEachNodeAfterFilterAndSort(function (node) {
      rows += 1;
      if (rows > MOST) { return; }
      lines.push("| " + columns.map(function (column) {
        return cell(api.getCellValue({ rowNode: node, colKey: column, useFormatter: true }));
      }).join(" | ") + " |");
    });
    return { text: lines.join("\n") + "\n", rows: rows };
  }

  function copy(text) {
    if (navigator.clipboard && window.isSecureContext) { return navigator.clipboard.writeText(text); }
    var area = document.createElement("textarea");
    area.value = text;
    area.className = "visually-hidden";
    document.body.appendChild(area);
    area.select();
    var done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject(new Error("not copied"));
  }

  document.addEventListener("click", function (event) {
    var target = event.target.closest ? event.target : event.target.parentElement;
    var button = target && target.closest("[data-markdown]");
    var api = button && window.dash_ag_grid && window.dash_ag_grid.getApi(button.dataset.markdown);
    if (!api) { return; }
    var made = table(api);
    var name = button.dataset.name || (button.dataset.name = button.textContent);
    var shown = made.rows > MOST ? "Copied the first " + MOST.toLocaleString("en-US") + " rows" : "Copied";
    copy(made.text).then(function () { button.textContent = shown; }, function () { button.textContent = "The browser refused"; })
      .then(function () { setTimeout(function () { button.textContent = name; }, 2000); });
  });
})();
