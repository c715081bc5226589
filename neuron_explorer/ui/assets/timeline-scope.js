/* Timeline: the filters that all pages share, as the address has them. Steps shade what lies outside of
   them; rank, process and device leave lanes out; phases dim the events of others. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const MOST_STEPS = 200; // steps of one number that are looked at: one a rank

  /** {steps: [first, last] or null, phase: "forward,backward" or "", rank, process: text or "", device: text or ""}. */
  nx.readScope = function (search) {
    const query = new URLSearchParams(search);
    const steps = /^(\d{1,9})-(\d{1,9})$/.exec(query.get("period") || "");
    const whole = (key) => (/^\d{1,18}$/.test(query.get(key) || "") ? query.get(key) : "");
    const phases = (query.get("phase") || "").toLowerCase().split(",").map((phase) => phase.trim()).filter((phase) => /^[a-z_]{1,40}$/.test(phase));
    return {
      steps: steps && Number(steps[1]) <= Number(steps[2]) ? [Number(steps[1]), Number(steps[2])] : null,
      phase: [...new Set(phases)].slice(0, 8).join(),
      rank: whole("rank"), process: whole("process"), device: (query.get("device") || "").slice(0, 60),
    };
  };

  /** Whether a lane or counter belongs to what is looked at. Threads of the host serve every device. */
  nx.inScope = function (scope, { lane, series }) {
    const of = lane || series;
    if (scope.rank && String(of.rank) !== scope.rank) return false;
    if (scope.process && of.process > 0 && String(of.process) !== scope.process) return false;
    return !(scope.device && lane && lane.device && lane.device !== scope.device);
  };

  /** The same choice that no filter has been made of. */
  nx.EVERYTHING = nx.readScope("");

  /** In words, what lanes are left out for; "" for nothing. */
  nx.scopeLabel = function ({ rank, process, device }) {
    return [rank && `rank ${rank}`, process && `process ${process}`, device && `device ${device}`].filter(Boolean).join(", ");
  };

  const PHASES = ["forward", "backward", "recompute", "optimizer", "other"];

  /** The choice without what the trace does not have: the bar of filters names it, and it leaves nothing out. */
  nx.knownScope = function (scope, lanes) {
    const has = (key) => lanes.some((lane) => String(lane[key]) === scope[key]);
    return {
      ...scope,
      phase: scope.phase.split(",").every((phase) => PHASES.includes(phase)) ? scope.phase : "",
      rank: has("rank") ? scope.rank : "", process: has("process") ? scope.process : "",
      device: scope.device === "cpu" || has("device") ? scope.device : "",
    };
  };

  const differ = (a, b, keys) => keys.some((key) => String(a[key]) !== String(b[key]));

  (nx.parts = nx.parts || []).push({
    /** Take the shared filters from the address. `go`: show the steps, too, where they are others than before. */
    async readScope(go) {
      const before = this.view.scope;
      const scope = (this.view.scope = nx.knownScope(nx.readScope(window.location.search), this.meta.lanes));
      if (differ(scope, before, ["rank", "process", "device"])) this.lanesChanged(nx.scopeLabel(scope) ? `only ${nx.scopeLabel(scope)}` : "lanes of all ranks and devices");
      if (scope.phase !== before.phase) this.setFilter(this.filter, true);
      if (!scope.steps) {
        this.shade = null;
        this.invalidate();
        if (go && before.steps) this.show(0, this.view.end);
        return;
      }
      if (!differ(scope, before, ["steps", "rank", "process"]) && this.shade) return;
      const shade = await this.timesOf(scope);
      if (!this.alive() || this.view.scope !== scope) return;
      this.shade = shade;
      this.invalidate();
      if (!shade) {
        this.status.textContent = `the trace has no step ${scope.steps.join(" to ")}`;
        return;
      }
      if (go) {
        const margin = (shade[1] - shade[0]) * 0.02;
        this.show(shade[0] - margin, shade[1] + margin);
      }
    },

    /** Start of the first and end of the last step of a scope; null where the trace has none of them. */
    async timesOf(scope) {
      const of = async (step) => {
        const { hits } = await this.source.ask("search", { kind: "step", step, limit: MOST_STEPS });
        const own = hits.filter((hit) => {
          const lane = this.meta.lanes[this.view.laneOf(hit.track)];
          return lane && nx.inScope({ ...scope, process: "" }, { lane }); // steps are of the main process
        });
        return own.length ? [Math.min(...own.map((hit) => hit.start)), Math.max(...own.map((hit) => hit.end))] : null;
      };
      try {
        const [first, last] = await Promise.all(scope.steps.map(of));
        if (!first) return null;
        return [first[0], last ? last[1] : this.view.end]; // a range may go on behind the last step
      } catch (error) {
        this.trouble(error);
        return null;
      }
    },
  });

  /** Veil what is outside of the steps on a canvas of `height` css px, from `y`. `px`: time to css px. */
  nx.drawShade = function (ctx, shade, px, width, y, height, palette) {
    if (!shade) return;
    const x0 = Math.max(0, Math.min(width, px(shade[0])));
    const x1 = Math.max(0, Math.min(width, px(shade[1])));
    ctx.fillStyle = nx.css(palette.surface);
    ctx.globalAlpha = 0.72;
    ctx.fillRect(0, y, x0, height);
    ctx.fillRect(x1, y, width - x1, height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = nx.css(palette.muted);
    if (x0 > 0) ctx.fillRect(Math.round(x0) - 1, y, 1, height);
    if (x1 < width) ctx.fillRect(Math.round(x1), y, 1, height);
  };
})();
