/* The list of traces in the top bar: arrow keys walk it, Escape and a click elsewhere close it. */
(function () {
  "use strict";

  function opened() { return document.querySelector("details.trace-picker[open]"); }

  document.addEventListener("keydown", function (event) {
    var picker = opened();
    if (!picker || !picker.contains(event.target)) { return; }
    var links = Array.from(picker.querySelectorAll("a"));
    var at = links.indexOf(document.activeElement);
    var next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (event.key === "Escape") {
      picker.open = false;
      picker.querySelector("summary").focus();
    } else if (next !== undefined) {
      event.preventDefault();
      if (links.length) { links[(next + links.length) % links.length].focus(); }
    }
  });

  document.addEventListener("click", function (event) {
    var picker = opened();
    if (picker && !picker.contains(event.target)) { picker.open = false; }
  });
})();
