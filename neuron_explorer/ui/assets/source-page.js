/* The page of sources: the heat beside a line, and the address that follows the selected line. */
(function () {
  "use strict";

  var cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  cells.NxLine = function (props) {
    var href = props.base + (props.base.indexOf("?") < 0 ? "?" : "&") + "line=" + encodeURIComponent(props.value);
    return window.React.createElement("a", { href: href, "data-keep": "metric block", tabIndex: -1 }, props.value);
  };
  cells.NxHeat = function (props) {
    var make = window.React.createElement;
    var empty = props.value === null || props.value === undefined;
    var heat = Math.max(0, Math.min(1, (props.data && props.data.heat) || 0));
    return make("div", { className: "heat-cell" },
      heat ? make("span", { className: "heat-bar", style: { width: (heat * 100).toFixed(1) + "%", opacity: (0.35 + 0.35 * heat).toFixed(2) } }) : null,
      make("span", { className: "heat-number" }, empty ? "" : props.valueFormatted || String(props.value)));
  };

  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  /* Most lines cost nothing: an empty cell is quieter than a dash in each. */
  functions.nxBlank = function (value, digits) {
    return value === null || value === undefined ? "" : functions.nxNumber(value, digits);
  };

  function select(rows) {
    var line = rows && rows.length === 1 && rows[0] && rows[0].n;
    if (!line || !/^\d{1,9}$/.test(line) || !/\/source$/.test(window.location.pathname)) {
      return window.dash_clientside.no_update;
    }
    var now = new URLSearchParams(window.location.search);
    if (now.get("line") !== line) {
      now.set("line", line);
      var card = document.querySelector(".source-card");
      if (card && card.dataset.file) { now.set("file", card.dataset.file); }
      window.history.pushState({}, "", window.location.pathname + "?" + now);
      window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    }
    return window.dash_clientside.no_update;
  }

  var clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.nxSource = { select: select };
})();
