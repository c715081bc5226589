/* Tables out of the page: the rows shown, in their order, as CSV or as Markdown on the clipboard. */
(function () {
  "use strict";

  var MOST = 1000;
  /* Heading of a column that holds links and no data. */
  var LINKS = "go to";
  var RISKY = /^[=+\-@\t\r]/;

  function csvCell(value) {
    if (value === null || value === undefined) { return ""; }
    if (typeof value === "number") { return String(value); }
    var text = String(value);
    /* A sheet would run such a cell as a formula. */
    if (RISKY.test(text)) { text = "'" + text; }
    return /[",\n\r;]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function markdownCell(value) {
    if (value === null || value === undefined) { return ""; }
    return String(value)
      .replace(/[\r\n\t]+/g, " ")
      .replace(/[\\`*_{}[\]()#+!|~]/g, "\\$&")
      .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  /* What is shown: { heads, right, rows }, cells as values for CSV and as texts for Markdown. */
  function ofGrid(api, formatted) {
    var columns = api.getAllDisplayedColumns().filter(function (column) {
      var name = column.getColDef().headerName;
      return name && name !== LINKS;
    });
    var rows = [];
    api.forEachNodeAfterFilterAndSort(function (node) {
      rows.push(columns.map(function (column) {
        return api.getCellValue({ rowNode: node, colKey: column, useFormatter: formatted });
      }));
    });
    return {
      heads: columns.map(function (column) { return column.getColDef().headerName; }),
      right: columns.map(function (column) { return column.getColDef().type === "rightAligned"; }),
      rows: rows,
    };
  }

  function shown(cell) { return cell.textContent.replace(/\s+/g, " ").trim(); }

  function ofTable(table) {
    var heads = Array.from(table.querySelectorAll("thead th"));
    var kept = heads.map(function (_, index) { return index; }).filter(function (index) { return shown(heads[index]) !== LINKS; });
    return {
      heads: kept.map(function (index) { return shown(heads[index]); }),
      right: kept.map(function (index) { return heads[index].classList.contains("num"); }),
      rows: Array.from(table.tBodies).flatMap(function (body) { return Array.from(body.rows); }).map(function (row) {
        return kept.map(function (index) { return row.cells[index] ? shown(row.cells[index]) : ""; });
      }),
    };
  }

  function csv(data) {
    return [data.heads].concat(data.rows).map(function (row) { return row.map(csvCell).join(","); }).join("\r\n") + "\r\n";
  }

  function markdown(data) {
    var line = function (cells) { return "| " + cells.join(" | ") + " |"; };
    return [line(data.heads.map(markdownCell)), line(data.right.map(function (right) { return right ? "---:" : "---"; }))]
      .concat(data.rows.slice(0, MOST).map(function (row) { return line(row.map(markdownCell)); })).join("\n") + "\n";
  }

  function save(blob, name) {
    var link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
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

  function tell(button, text) {
    var name = button.dataset.name || (button.dataset.name = button.textContent);
    button.textContent = text;
    setTimeout(function () { button.textContent = name; }, 2000);
  }

  function saveCsv(data, name) {
    save(new Blob(["\ufeff" + csv(data)], { type: "text/csv;charset=utf-8" }), (name || "table") + ".csv");
  }

  function copyMarkdown(data, button) {
    var done = data.rows.length > MOST ? "Copied the first " + MOST.toLocaleString("en-US") + " rows" : "Copied";
    copy(markdown(data)).then(function () { tell(button, done); }, function () { tell(button, "The browser refused"); });
  }

  document.addEventListener("click", function (event) {
    var target = event.target.closest ? event.target : event.target.parentElement;
    var button = target && target.closest("[data-csv], [data-markdown], [data-export=csv], [data-export=markdown]");
    if (!button) { return; }
    var grid = button.dataset.csv || button.dataset.markdown;
    if (grid) {
      var api = window.dash_ag_grid && window.dash_ag_grid.getApi(grid);
      if (!api) { return; }
      if (button.dataset.csv) { saveCsv(ofGrid(api, false), button.dataset.csvName); } else { copyMarkdown(ofGrid(api, true), button); }
      return;
    }
    var box = button.closest(".exportable");
    var table = box && box.querySelector("table");
    if (!table) { return; }
    if (button.dataset.export === "csv") { saveCsv(ofTable(table), box.dataset.exportName); } else { copyMarkdown(ofTable(table), button); }
  });

  window.nxExport = { save: save, tell: tell };
})();
