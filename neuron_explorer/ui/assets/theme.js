/* Sets the theme before anything is drawn. Loaded in the head; small and without dependencies. */
(function () {
  "use strict";
  var KEY = "neuron-explorer-theme";
  var media = window.matchMedia("(prefers-color-scheme: dark)");

  function choice() {
    try {
      var kept = window.localStorage.getItem(KEY);
      return kept === "light" || kept === "dark" ? kept : "system";
    } catch (error) {
      return "system";
    }
  }

  function apply() {
    var chosen = choice();
    var theme = chosen === "system" ? (media.matches ? "dark" : "light") : chosen;
    var root = document.documentElement;
    var changed = root.dataset.theme !== theme;
    root.dataset.theme = theme;
    root.dataset.agThemeMode = theme;
    document.querySelectorAll("[data-theme-choice]").forEach(function (button) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === chosen));
    });
    if (changed) {
      window.dispatchEvent(new CustomEvent("nx-theme", { detail: theme }));
    }
  }

  window.nxTheme = {
    apply: apply,
    choose: function (chosen) {
      try {
        window.localStorage.setItem(KEY, chosen);
      } catch (error) {
        /* Private windows keep no storage: the choice lasts until the page is left. */
      }
      apply();
    },
  };
  media.addEventListener("change", apply);
  apply();
})();
