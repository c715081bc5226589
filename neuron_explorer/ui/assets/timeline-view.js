/* Timeline: the window of time and the arrangement of lanes. Numbers only, no drawing. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const ROW = 16; // css px from one row to the next
  const BAR = 15;
  const LANE_GAP = 9;
  const LANE_LEAD = 3;
  const GROUP = 24;
  const MIN_WINDOW = 64; // ns

  nx.geometry = { ROW, BAR };

  nx.View = class {
    constructor(meta) {
      this.meta = meta;
      this.end = meta.end;
      this.t0 = 0;
      this.t1 = meta.end;
      this.width = 800; // css px of the time axis
      this.height = 400; // css px of the lanes' viewport
      this.scroll = 0;
      this.collapsed = new Set();
      this.trackRow = new Map();
      this.blockOfTrack = new Map();
      meta.blocks.forEach(([, first, count], b) => {
        for (let t = first; t < first + count; t++) this.blockOfTrack.set(t, [b, t - first]);
      });
      this.arrange();
    }

    get nsPerPx() {
      return (this.t1 - this.t0) / this.width;
    }
    px(t) {
      return (t - this.t0) / this.nsPerPx;
    }
    time(px) {
      return this.t0 + px * this.nsPerPx;
    }

    /** Rows of the header (steps) and of the lanes below it. */
    arrange() {
      this.head = [];
      this.rows = [];
      this.labels = [];
      this.trackRow.clear();
      const groups = new Set(this.meta.lanes.map((lane) => lane.group));
      let y = 4;
      let headY = 0;
      let group = null;
      this.meta.lanes.forEach((lane, number) => {
        if (lane.kind === "steps") {
          for (let r = 0; r < Math.min(lane.tracks, 4); r++) {
            this.add(this.head, lane.first + r, headY);
            if (r === 0) this.labels.push({ head: true, y: headY, lane, number });
            headY += ROW;
          }
          return;
        }
        if (groups.size > 1 && lane.group !== group) {
          y += group === null ? 0 : 6;
          this.labels.push({ group: true, y, lane, number });
          y += GROUP;
        }
        group = lane.group;
        const shown = this.collapsed.has(number) ? Math.min(1, lane.tracks) : lane.tracks;
        this.labels.push({ y, lane, number, rows: shown });
        y += LANE_LEAD;
        for (let r = 0; r < shown; r++) {
          this.add(this.rows, lane.first + r, y);
          y += ROW;
        }
        y += LANE_GAP;
      });
      this.counters = [];
      const series = this.meta.series.slice(0, 32);
      if (series.length) {
        y += 6;
        this.labels.push({ heading: "counters", y });
        y += GROUP;
      }
      series.forEach((each, number) => {
        this.labels.push({ series: each, y, rows: 2 });
        this.counters.push({ series: number, y });
        y += nx.counters.HEIGHT + 6;
      });
      this.headHeight = headY;
      this.total = y;
    }

    add(list, track, y) {
      const [block, r] = this.blockOfTrack.get(track);
      const row = { track, y, block, r, head: list === this.head };
      list.push(row);
      this.trackRow.set(track, row);
    }

    /** Index of the first row whose bottom is below `y`. */
    rowIndexAt(y) {
      let lo = 0;
      let hi = this.rows.length;
      while (lo < hi) {
        const mid = (lo + hi) >> 1;
        if (this.rows[mid].y + ROW <= y) lo = mid + 1;
        else hi = mid;
      }
      return lo;
    }

    visibleRows() {
      const out = [];
      for (let i = this.rowIndexAt(this.scroll); i < this.rows.length && this.rows[i].y < this.scroll + this.height; i++) {
        out.push(this.rows[i]);
      }
      return out;
    }

    visibleCounters() {
      const h = nx.counters.HEIGHT;
      return this.counters.filter((row) => row.y + h > this.scroll && row.y < this.scroll + this.height);
    }

    counterAt(y) {
      return this.counters.find((row) => row.y <= y + this.scroll && y + this.scroll < row.y + nx.counters.HEIGHT) || null;
    }

    rowAt(y) {
      const row = this.rows[this.rowIndexAt(y + this.scroll)];
      return row && row.y <= y + this.scroll ? row : null;
    }

    /** Show [t0, t1), kept inside the trace. Returns whether anything changed. */
    show(t0, t1) {
      const least = Math.min(MIN_WINDOW, this.end);
      let span = Math.max(least, Math.min(t1 - t0, this.end));
      if (!Number.isFinite(span) || span > this.end - 1) span = this.end; // whole, whatever the rounding
      let start = (t0 + t1) / 2 - span / 2;
      start = Math.max(0, Math.min(start, this.end - span));
      const changed = start !== this.t0 || start + span !== this.t1;
      this.t0 = start;
      this.t1 = span === this.end ? this.end : start + span;
      return changed;
    }

    zoom(factor, px) {
      const at = this.time(px);
      const span = Math.max(Math.min(MIN_WINDOW, this.end), Math.min((this.t1 - this.t0) * factor, this.end));
      const start = at - (px / this.width) * span;
      return this.show(start, start + span);
    }

    pan(px) {
      const move = px * this.nsPerPx;
      return this.show(this.t0 + move, this.t1 + move);
    }

    /** Level and numbers of the tiles that cover the window, and their neighbours. */
    tiles(dpr) {
      const k = Math.max(0, Math.min(44, Math.floor(Math.log2(this.nsPerPx / dpr))));
      const span = nx.BINS * 2 ** k;
      const last = Math.max(0, Math.ceil(this.end / span) - 1);
      const from = Math.max(0, Math.floor(this.t0 / span));
      const to = Math.min(last, Math.max(from, Math.ceil(this.t1 / span) - 1));
      const numbers = [];
      for (let i = from; i <= to; i++) numbers.push(i);
      const ahead = [];
      if (from > 0) ahead.push(from - 1);
      if (to < last) ahead.push(to + 1);
      return { k, numbers, ahead };
    }

    /** Scroll so that a row is in sight. Returns whether the scroll position changed. */
    reveal(track) {
      const row = this.trackRow.get(track);
      if (!row || row.head) return false;
      const before = this.scroll;
      if (row.y < this.scroll + 4) this.scroll = Math.max(0, row.y - 40);
      if (row.y + ROW > this.scroll + this.height - 4) this.scroll = row.y + ROW - this.height + 40;
      return this.scroll !== before;
    }

    laneOf(track) {
      return this.meta.lanes.findIndex((lane) => track >= lane.first && track < lane.first + lane.tracks);
    }
  };
})();
