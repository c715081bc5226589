/* Timeline: search, and the state in the address. Methods of the component in timeline.js. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;
  nx.HITS_LISTED = 100;

  (nx.parts = nx.parts || []).push({
    /* ---- search ---- */

    search(text) {
      text = text.trim().slice(0, 500);
      this.setFilter(text ? { q: text } : {});
    },
    filterLine(file, line) {
      this.setFilter({ line: `${file}:${line}` });
    },

    /** Highlight what matches; {} highlights nothing. */
    async setFilter(filter, quiet = false) {
      this.filter = filter;
      this.hits = null;
      this.hitAt = null;
      const whole = this.sought();
      const sought = Object.keys(filter).length > 0;
      this.source.filter = new URLSearchParams(whole).toString();
      this.source.marks.clear();
      this.found.hidden = !sought;
      if (!quiet) this.keepState(true);
      this.invalidate();
      if (!sought) {
        if (!this.selected) this.panel.idle(this.meta);
        return;
      }
      const label = nx.filterLabel(filter);
      this.drawFound(label, null);
      try {
        const answer = await this.source.ask("search", { ...whole, limit: nx.HITS_LISTED, where: 1 });
        if (!this.alive() || this.filter !== filter) return;
        this.hits = answer;
        this.drawFound(label, answer.count);
        this.invalidate();
        this.status.textContent = `${nx.plural(answer.count, "match", "matches")} for ${label}`;
        if (!this.selected) this.panel.hits(answer, label);
      } catch (error) {
        if (!this.alive() || this.filter !== filter) return;
        if (!filter.sql && !/^\s*sql:/i.test(filter.q || "")) return this.trouble(error);
        // A condition without an answer: what is wrong with it, and nothing highlighted.
        const { phase } = this.view.scope;
        this.source.filter = phase ? new URLSearchParams({ phase }).toString() : "";
        this.found.hidden = true;
        this.invalidate();
        this.panel.failed(`${label}: ${error.message}`);
        this.status.textContent = error.message;
      }
    },

    /** What is asked for: the search among the phases that the page is about. */
    sought() {
      const { phase } = this.view.scope;
      return phase ? { phase, ...this.filter } : this.filter;
    },

    /** Another part of the list of hits. */
    async listHits(first) {
      const { filter, hits } = this;
      try {
        const answer = await this.source.ask("search", { ...this.sought(), limit: nx.HITS_LISTED, first });
        if (!this.alive() || this.filter !== filter || this.hits !== hits || this.selected) return;
        this.panel.hits(answer, nx.filterLabel(filter));
        this.status.textContent = `matches ${nx.count(answer.first + 1)} to ${nx.count(answer.first + answer.hits.length)} of ${nx.count(answer.count)}`;
      } catch (error) {
        this.trouble(error);
      }
    },

    drawFound(label, count) {
      const at = this.hitAt === null ? "" : `${nx.count(this.hitAt + 1)} of `;
      this.found.replaceChildren(
        el("span", { class: "tl-found-label", title: label }, label),
        el("span", { class: "tl-found-count" }, count === null ? "…" : at + nx.plural(count, "match", "matches")),
        el("button", { type: "button", class: "tl-button", title: "Previous match (Shift+N)", "aria-label": "Previous match", disabled: !count, onclick: () => this.nextHit(-1) }, "‹"),
        el("button", { type: "button", class: "tl-button", title: "Next match (N)", "aria-label": "Next match", disabled: !count, onclick: () => this.nextHit(1) }, "›"),
        el("button", { type: "button", class: "tl-button", title: "Drop the search (Escape)", onclick: () => this.setFilter({}) }, "Clear"));
    },

    async nextHit(direction) {
      if (!this.hits || !this.hits.count) return;
      const { count } = this.hits;
      try {
        const query = { ...this.sought(), limit: 1 };
        if (this.hitAt === null) query.near = Math.floor(this.view.t0);
        else query.first = (this.hitAt + direction + count) % count;
        const answer = await this.source.ask("search", query);
        if (!this.alive() || !answer.hits.length) return;
        this.hitAt = answer.first;
        this.drawFound(nx.filterLabel(this.filter), count);
        await this.jump(answer.hits[0], false);
      } catch (error) {
        this.trouble(error);
      }
    },

    /* ---- the address, and Dash ---- */

    async applyState() {
      const state = nx.readState(window.location.search);
      const { view } = this;
      this.marks = state.marks;
      this.span = null;
      view.lanes = new nx.LaneChoice(state.lanes);
      view.arrange();
      this.arranged();
      this.lanesButton();
      if (this.lanesNode) this.toggleLanes();
      this.colourBy(state.colour, true);
      if (state.window) view.show(...state.window);
      else view.show(0, view.end);
      this.invalidate();
      if (JSON.stringify(state.filter) !== JSON.stringify(this.filter)) this.setFilter(state.filter, true);
      await this.readScope(!state.window && state.step === null && state.event === null);
      if (!this.alive()) return;
      try {
        if (state.step !== null && !state.window) {
          const { hits } = await this.source.ask("search", { kind: "step", step: state.step, limit: 1 });
          if (hits.length) this.show(hits[0].start - (hits[0].end - hits[0].start) * 0.01, hits[0].end + (hits[0].end - hits[0].start) * 0.01);
          else this.status.textContent = `the trace has no step ${state.step}`;
        }
        if (state.event !== null) {
          if (!this.selected || this.selected.id !== state.event) {
            const details = await this.source.ask("event", { id: state.event });
            if (!state.window && state.step === null) await this.jump(details, false);
            else {
              this.reveal(details);
              await this.select(details);
            }
          }
        } else if (this.selected) {
          this.select(null);
        }
        if (state.span) await this.measure(...state.span, true);
      } catch (error) {
        if (this.alive()) this.panel.failed(error.message);
      }
    },

    /** The state into the address; `push` makes it a step of the browser's history. */
    keepState(push) {
      const { view } = this;
      const whole = view.t0 <= 0 && view.t1 >= view.end;
      const pending = this.selected && !this.selected.id;
      if (pending) return; // its id comes with the details
      const search = nx.writeState(window.location.search, {
        filter: this.filter, window: whole ? null : [view.t0, view.t1], event: this.selected ? this.selected.id : null, marks: this.marks,
        span: this.span, colour: this.source.colour, lanes: view.lanes,
      });
      if (search === window.location.search) return;
      const url = window.location.pathname + search + window.location.hash;
      if (push) window.history.pushState(window.history.state, "", url);
      else window.history.replaceState(window.history.state, "", url);
      clearTimeout(this.telling);
      this.telling = setTimeout(() => this.alive() && this.tell("timeline-window", { from: Math.floor(view.t0), to: Math.ceil(view.t1) }), 200);
    },

    tell(id, data) {
      const dash = window.dash_clientside;
      if (dash && dash.set_props && document.getElementById(this.root.id)) dash.set_props(id, { data });
    },
  });
})();
