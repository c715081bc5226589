/* The SQL page: a plain editor, running and cancelling, the query in the address. Nothing runs
   before the user says so: an address only fills the editor. */
(function () {
  "use strict";

  var running = null;
  var SILENCE_MS = 25000;

  function byId(id) { return document.getElementById(id); }

  function editor() {
    var box = byId("sql-editor");
    return box && box.querySelector("textarea");
  }

  function draftKey(box) { return "nx-sql-" + box.dataset.trace; }

  function draft(box) {
    try { return window.sessionStorage.getItem(draftKey(box)) || ""; } catch (error) { return ""; }
  }

  function keepDraft(text) {
    var box = byId("sql-editor");
    try { window.sessionStorage.setItem(draftKey(box), text); } catch (error) { /* private mode */ }
  }

  function fromAddress() { return new URLSearchParams(window.location.search).get("sql") || ""; }

  function toAddress(text) {
    var now = new URLSearchParams(window.location.search);
    if (text) { now.set("sql", text); } else { now.delete("sql"); }
    var query = now.toString();
    window.history.replaceState(window.history.state, "", window.location.pathname + (query ? "?" + query : ""));
  }

  function fit(area) { area.rows = Math.max(6, Math.min(16, area.value.split("\n").length + 1)); }

  function equip(box) {
    var area = document.createElement("textarea");
    area.className = "sql-text";
    area.spellcheck = false;
    area.autocomplete = "off";
    area.setAttribute("autocapitalize", "off");
    area.setAttribute("aria-label", "SQL query");
    area.maxLength = Number(box.dataset.longest);
    area.value = (box.dataset.sql || draft(box) || box.dataset.sqlDefault || "").slice(0, area.maxLength);
    fit(area);
    area.addEventListener("input", function () {
      keepDraft(area.value);
      fit(area);
    });
    area.addEventListener("keydown", function (event) {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      }
    });
    box.appendChild(area);
    leave(); // the page was drawn anew while a query ran
  }

  new MutationObserver(function () {
    var box = byId("sql-editor");
    if (box && !box.firstChild) { equip(box); }
  }).observe(document.documentElement, { childList: true, subtree: true });

  window.addEventListener("popstate", function () {
    var area = editor();
    if (area && fromAddress()) { area.value = fromAddress().slice(0, area.maxLength); }
  });

  function say(text) {
    var status = byId("sql-status");
    if (status) { status.textContent = text; }
  }

  function key() {
    var bytes = new Uint8Array(16);
    window.crypto.getRandomValues(bytes);
    return Array.from(bytes, function (b) { return b.toString(16).padStart(2, "0"); }).join("");
  }

  function buttons() {
    var go = byId("sql-run");
    var stop = byId("sql-stop");
    if (go) { go.disabled = Boolean(running); }
    if (stop) { stop.disabled = !running; }
  }

  function run() {
    var area = editor();
    if (!area || running) { return; }
    if (!area.value.trim()) {
      say("There is no query.");
      return;
    }
    toAddress(area.value);
    keepDraft(area.value);
    running = { id: key(), since: performance.now() };
    buttons();
    say("Running");
    window.dash_clientside.set_props("sql-request", { data: { id: running.id, sql: area.value } });
    tick(running);
  }

  function tick(mine) {
    if (running !== mine) { return; }
    var past = performance.now() - mine.since;
    if (!byId("sql-status")) {
      leave();
      return;
    }
    if (past > SILENCE_MS) {
      running = null;
      buttons();
      say("No answer from the server. Is it still running?");
      return;
    }
    // Not in words: a screen reader hears "Running" once, not ten times a second.
    byId("sql-status").dataset.elapsed = (past / 1000).toFixed(1) + " s";
    setTimeout(function () { tick(mine); }, 100);
  }

  /* Nobody waits for the answer any more: the query ends, and another can run. */
  function leave() {
    if (!running) { return; }
    fetch("/api/v1/sql/" + running.id + "/cancel", { method: "POST", keepalive: true }).catch(function () { /* it ends at its time limit */ });
    running = null;
  }
  window.addEventListener("pagehide", leave);

  function stop() {
    if (running) {
      say("Cancelling");
      window.dash_clientside.set_props("sql-cancel", { data: { id: running.id, at: performance.now() } });
    }
  }

  function finished(done) {
    if (!running || !done || done.id !== running.id) { return; }
    running = null;
    buttons();
    var status = byId("sql-status");
    if (status) { delete status.dataset.elapsed; }
    say({ done: done.rows === 1 ? "1 row" : Number(done.rows).toLocaleString("en-US") + " rows", cancelled: "Cancelled", timeout: "Out of time", busy: "Busy" }[done.state] || "Not run");
    var area = editor();
    if (area && typeof done.position === "number") {
      // Positions count characters, the field counts UTF-16 units.
      var before = Array.from(area.value).slice(0, done.position).join("").length;
      var word = /^[\w"'.]*/.exec(area.value.slice(before))[0].length;
      area.focus();
      area.setSelectionRange(before, before + Math.max(1, word));
    }
  }

  function put(text, whole) {
    var area = editor();
    if (!area) { return; }
    area.focus();
    if (whole) { area.setSelectionRange(0, area.value.length); }
    // The browser's own way of typing keeps undo alive.
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
      area.dispatchEvent(new Event("input"));
    }
    if (whole) {
      fit(area);
      area.scrollTop = 0;
      area.setSelectionRange(0, 0);
      say("Press Run, or Ctrl+Enter");
    }
  }

  document.addEventListener("click", function (event) {
    var target = event.target.closest ? event.target : event.target.parentElement;
    var button = target && target.closest("button");
    if (!button) { return; }
    if (button.id === "sql-run") {
      run();
    } else if (button.id === "sql-stop") {
      stop();
    } else if (button.dataset.sqlExample) {
      put(button.dataset.sqlExample, true);
    } else if (button.dataset.sqlInsert) {
      put(button.dataset.sqlInsert, false);
    }
  });

  var functions = (window.dashAgGridFunctions = window.dashAgGridFunctions || {});
  functions.nxValue = function (value, grouped, digits) {
    if (value === null || value === undefined) { return "–"; }
    if (typeof value !== "number") { return String(value); }
    if (!grouped) { return String(value); }
    // Smaller than the column's digits show: its own digits.
    if (value !== 0 && digits === 6 && Math.abs(value) < 0.001) { return value.toPrecision(4); }
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  };

  var cells = (window.dashAgGridComponentFunctions = window.dashAgGridComponentFunctions || {});
  cells.NxValueLink = function (props) {
    var text = props.valueFormatted || (props.value === null || props.value === undefined ? "" : String(props.value));
    var href = props.data && props.data[props.link];
    return href ? window.React.createElement("a", { href: href, tabIndex: -1 }, text) : text;
  };

  var clientside = (window.dash_clientside = window.dash_clientside || {});
  clientside.nxSql = {
    done: function (answer) {
      finished(answer);
      return window.dash_clientside.no_update;
    },
  };
})();
