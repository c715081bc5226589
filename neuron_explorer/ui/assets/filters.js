/* The filters of all pages: a choice changes its own key of the address, and nothing reloads. */
(function () {
  "use strict";

  var KEYS = ["period", "phase", "rank", "device", "process"];

  /** Set one filter ("*" clears them all). Every page hears of it as of any change of the address. */
  function choose(key, value) {
    var now = new URLSearchParams(window.location.search);
    var before = now.toString();
    (key === "*" ? KEYS : [key]).forEach(function (each) { now.delete(each); });
    if (value) { now.set(key, value); }
    var query = now.toString();
    if (query === before) { return; }
    window.history.pushState({}, "", window.location.pathname + (query ? "?" + query : ""));
    window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
  }

  /** An address within the same trace, with the filters that it does not name itself. */
  function keep(url) {
    if (url.pathname.split("/")[2] !== window.location.pathname.split("/")[2]) { return url; }
    var now = new URLSearchParams(window.location.search);
    KEYS.forEach(function (key) {
      if (now.get(key) && !url.searchParams.has(key)) { url.searchParams.set(key, now.get(key)); }
    });
    return url;
  }

  document.addEventListener("click", function (event) {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) { return; }
    var target = event.target.closest ? event.target : event.target.parentElement;
    var link = target && target.closest("[data-filter]");
    if (!link) { return; }
    event.preventDefault();
    choose(link.dataset.filter, link.dataset.value || "");
  }, true);

  /* Long lists of choices: a plain select, filled once. */
  function equip(box) {
    var select = document.createElement("select");
    select.setAttribute("aria-label", box.dataset.label || "");
    JSON.parse(box.dataset.options || "[]").forEach(function (each) {
      var option = document.createElement("option");
      option.value = each[0];
      option.textContent = each[1];
      option.selected = each[0] === box.dataset.value;
      select.appendChild(option);
    });
    select.addEventListener("change", function () { choose(box.dataset.choose, select.value); });
    box.appendChild(select);
  }

  new MutationObserver(function () {
    document.querySelectorAll("[data-choose]:empty").forEach(equip);
  }).observe(document.documentElement, { childList: true, subtree: true });

  window.nxFilters = { choose: choose, keep: keep };
})();
