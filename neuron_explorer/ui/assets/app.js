/* Links without reloading, the theme switch, keys, and what the grid needs. */
(function () {
  "use strict";

  /* Links: any left click on an address of a page of this app. */
  function go(href, keep) {
    var url = new URL(href, window.location.href);
    if (keep && url.pathname === window.location.pathname) {
      var now = new URLSearchParams(window.location.search);
      keep.split(" ").forEach(function (key) {
        if (now.has(key) && !url.searchParams.has(key)) { url.searchParams.set(key, now.get(key)); }
      });
    }
    url = window.nxFilters.keep(url);
    var moved = url.pathname !== window.location.pathname;
    window.history.pushState({}, "", url.pathname + url.search + url.hash);
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
    if (moved) {
      window.scrollTo(0, 0);
    }
  }

  document.addEventListener("click", function (event) {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
      return;
    }
    var target = event.target.closest ? event.target : event.target.parentElement;
    var themed = target.closest("[data-theme-choice]");
    if (themed) {
      window.nxTheme.choose(themed.dataset.themeChoice);
      return;
    }
    var link = target.closest("a[href]");
    if (!link || link.target || link.hasAttribute("download")) {
      return;
    }
    var url = new URL(link.href, window.location.href);
    if (url.origin === window.location.origin && url.pathname.startsWith("/t/")) {
      event.preventDefault();
      var open = link.closest("details[open]");
      if (open) { open.open = false; }
      go(link.href, link.dataset.keep);
    }
  });

  /* Fields are plain inputs: one that Dash controls mixes up what is typed fast on a busy machine. */
  function equip(box) {
    var input = document.createElement("input");
    input.type = "search";
    input.className = "field";
    input.maxLength = 200;
    input.autocomplete = "off";
    input.spellcheck = false;
    input.placeholder = box.dataset.placeholder || "";
    input.setAttribute("aria-label", box.dataset.placeholder || "");
    input.value = box.dataset.value || "";
    if (box.dataset.label) { input.setAttribute("aria-label", box.dataset.label); }
    if (box.dataset.input === "steps") {
      input.addEventListener("keydown", function (event) { if (event.key === "Enter") { chooseSteps(input); } });
      input.addEventListener("search", function () { if (!input.value && box.dataset.value) { chooseSteps(input); } });
    }
    if (box.dataset.input === "filter") {
      input.addEventListener("input", function () { filterRows(box.dataset.for, input.value); });
    }
    box.appendChild(input);
  }

  /* "5" or "3-7" in the address; an empty field takes the range out of it. */
  function chooseSteps(input) {
    var found = /^\s*(\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?$/.exec(input.value);
    var empty = !input.value.trim();
    input.setAttribute("aria-invalid", String(!found && !empty));
    if (!found && !empty) { return; }
    /* Enter also raises "search": the second one changes nothing. */
    window.nxFilters.choose("period", empty ? "" : found[1] + "-" + (found[2] || found[1]));
  }

  function filterRows(gridId, text) {
    var api = window.dash_ag_grid && window.dash_ag_grid.getApi(gridId);
    if (api) { api.setGridOption("quickFilterText", text); }
    keep({ q: text });
  }

  var themed = false;
  new MutationObserver(function () {
    document.querySelectorAll("[data-input]:empty").forEach(equip);
    if (!themed && document.querySelector("[data-theme-choice]")) {
      themed = true;
      window.nxTheme.apply();
    }
  }).observe(document.documentElement, { childList: true, subtree: true });

  /* Keys: "/" searches, Enter searches the tables, Escape leaves a field. */
  document.addEventListener("keydown", function (event) {
    var at = event.target;
    var typing = at && (at.tagName === "INPUT" || at.tagName === "TEXTAREA" || at.isContentEditable);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented) {
      var field = document.querySelector("#quick-search input");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    } else if (event.key === "Enter" && at && at.closest && at.closest("#quick-search")) {
      var trace = window.location.pathname.split("/")[2];
      if (trace) {
        var rows = document.querySelector("[data-input=filter] input, #calls-search input");
        if (rows) {
          rows.value = at.value;
          rows.dispatchEvent(new Event("input", { bubbles: true }));
        } else {
          go("/t/" + trace + "/bottlenecks?" + new URLSearchParams({ by: "line", q: at.value }));
        }
      }
    } else if (event.key === "Enter" && at && at.classList && at.classList.contains("ag-cell")) {
      var inside = at.querySelector("a[href]");
      if (inside) { inside.click(); }
    } else if (event.key === "Escape" && typing) {
      at.blur();
    }
  });

  /* Functions and cells of the grid. Cells are text or links; nothing is parsed as markup. */
  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.nxNumber = function (value, digits) {
    if (value === null || value === undefined) { return "–"; }
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };

  var cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  cells.NxLink = function (props) {
    var href = props.data && props.data[props.link];
    if (!href || !props.value) { return props.value || ""; }
    return window.React.createElement("a", { href: href, "data-keep": props.link === "href" ? "q sort filter" : undefined, tabIndex: -1 }, props.value);
  };
  cells.NxShare = function (props) {
    var text = functions.nxNumber(props.value, 1);
    var width = Math.max(0, Math.min(100, props.value || 0));
    return window.React.createElement("div", { className: "share-cell" },
      window.React.createElement("span", { className: "share-bar", style: { width: width + "%" } }),
      window.React.createElement("span", { className: "share-number" }, text));
  };

  /* State of the table in the address, without a new entry in the history. */
  function keep(changes) {
    var now = new URLSearchParams(window.location.search);
    Object.keys(changes).forEach(function (key) {
      if (changes[key]) { now.set(key, changes[key]); } else { now.delete(key); }
    });
    var query = now.toString();
    window.history.replaceState(window.history.state, "", window.location.pathname + (query ? "?" + query : ""));
  }

  var clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.nx = Object.assign(clientside.nx || {}, {
    gridState: function (columns, filters, name) {
      var sorted = (columns || []).filter(function (column) { return column.sort; })[0];
      var filled = filters && Object.keys(filters).length;
      var sort = sorted ? sorted.colId + ":" + sorted.sort : "none:none";
      keep({ sort: sort === "self:desc" ? "" : sort, filter: filled ? JSON.stringify(filters) : "" });
      return name;
    },
    stepClicked: function (click, pathname) {
      var point = click && click.points && click.points[0];
      if (point && pathname) {
        go("/t/" + pathname.split("/")[2] + "/timeline?step=" + Number(point.customdata));
      }
      return window.dash_clientside.no_update;
    },
    /* A point of a chart that carries an address of this app leads there. */
    pointClicked: function (click) {
      var point = click && click.points && click.points[0];
      if (point && typeof point.customdata === "string" && point.customdata.slice(0, 3) === "/t/") {
        go(point.customdata);
      }
      return window.dash_clientside.no_update;
    },
  });
})();
