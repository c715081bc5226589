/* How the trace and the server stand: asked every few seconds, said above the page where it matters. */
(function () {
  "use strict";

  var EVERY_MS = 3000;
  var failures = 0;
  var shown = "";
  var busy = false;

  function traceId() {
    var parts = window.location.pathname.split("/");
    return parts[1] === "t" && parts[2] ? parts[2] : "";
  }

  function say(text, action, kind) {
    var banner = document.getElementById("banner");
    if (!banner) { return; }
    var key = [text.replace(/\d+ \w+ ago/, ""), action, kind].join("|");
    if (text && key === shown && banner.firstChild) {
      /* Only the age has changed: no reason to tell a screen reader again. */
      banner.setAttribute("aria-live", "off");
      banner.firstChild.textContent = text;
      return;
    }
    shown = key;
    banner.setAttribute("aria-live", "polite");
    banner.textContent = "";
    if (!text) {
      delete document.documentElement.dataset.banner;
      return;
    }
    var said = document.createElement("span");
    said.className = "banner-text";
    said.textContent = text;
    banner.appendChild(said);
    if (action) {
      var button = document.createElement("button");
      button.type = "button";
      button.className = "button";
      button.textContent = action;
      button.addEventListener("click", function () { lookAgain(button); });
      banner.appendChild(button);
    }
    banner.dataset.kind = kind;
    document.documentElement.dataset.banner = kind;
  }

  function lookAgain(button) {
    var id = traceId();
    if (!id || busy) { return; }
    busy = true;
    button.disabled = true;
    button.textContent = "Reading";
    fetch("/api/v1/t/" + encodeURIComponent(id) + "/refresh", { method: "POST" }).then(function (reply) {
      if (reply.ok) {
        window.location.reload();
        return null;
      }
      return reply.json().then(function (body) {
        shown = "";
        say(body.text || "That did not work.", "Try again", "problem");
      });
    }).catch(function () { failures += 1; }).then(function () { busy = false; });
  }

  function drawn() {
    var mark = document.getElementById("trace-generation");
    return mark ? Number(mark.dataset.generation) : -1;
  }

  function hear(body) {
    var page = drawn();
    if (body.text) {
      say(body.text, body.action, body.state === "recording" || body.state === "ended" ? "note" : "problem");
    } else if (page > 0 && body.generation > page) {
      say("The trace was read again since this page was opened.", "Reload", "note");
    } else {
      say("", "", "");
    }
  }

  function ask() {
    var id = traceId();
    if (document.hidden || busy || (!id && !failures)) { return; }
    var url = id ? "/api/v1/t/" + encodeURIComponent(id) + "/state" : "/assets/icon.svg";
    fetch(url, { cache: "no-store" }).then(function (reply) {
      failures = 0;
      if (reply.status === 403) {
        say("The server was started again since this page was opened. Open the address that it printed.", "", "problem");
        return null;
      }
      if (!id || reply.status === 404) {
        say("", "", "");
        return null;
      }
      return reply.json().then(hear);
    }).catch(function () {
      failures += 1;
      /* One lost reply is no reason to alarm anybody. */
      if (failures > 1) { say("The server does not answer: it was stopped. Start it again, and open the address that it prints.", "", "problem"); }
    });
  }

  setInterval(ask, EVERY_MS);
  document.addEventListener("visibilitychange", ask);
  window.addEventListener("load", function () { setTimeout(ask, 500); });
  window.nxState = { ask: ask };
})();
