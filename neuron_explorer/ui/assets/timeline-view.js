/* Timeline: the window of time and the arrangement of lanes. Numbers only, no drawing. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const ROW = 16; // css px from one row to the next
  const BAR = 15;
  const LANE_GAP = 9;
  const LANE_LEAD = 3;
  const GROUP = 24;
  const PINNED_ROWS = 16; // rows that pinned lanes take together; each has at least one
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
      this.lanes = new nx.LaneChoice();
      this.scope = nx.EVERYTHING;
      this.severalProcesses = new Set(meta.lanes.map((lane) => lane.group)).size > 1;
      this.severalRanks = new Set(meta.lanes.map((lane) => lane.rank)).size > 1;
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

    /** Rows of the header (steps, annotations, pinned lanes) and of the lanes below it. */
    arrange() {
      this.head = [];
      this.rows = [];
      this.labels = [];
      this.counters = [];
      this.trackRow.clear();
      this.extent = new Map(); // key of a lane → [top, bottom]
      this.arranged = nx.arrangeLanes(this.meta, this.lanes, this.scope);
      this.headHeight = this.arrangeHead();
      const { groups } = this.arranged;
      const titled = groups.filter((group) => group.key !== "counters").length > 1;
      let y = 4;
      groups.forEach((group, at) => {
        if (group.title && (titled || group.key === "counters")) {
          y += at ? 6 : 0;
          this.labels.push({ heading: group.title, id: group.id, y });
          y += GROUP;
        }
        for (const item of group.items) y = this.place(item, this.rows, y, Infinity);
      });
      if (!groups.length && this.arranged.hidden + this.arranged.out) {
        this.labels.push({ heading: "No lane matches", id: "", y });
        y += GROUP;
      }
      this.total = y;
    }

    arrangeHead() {
      const { meta } = this;
      let y = 0;
      meta.lanes.forEach((lane, number) => {
        if (lane.kind !== "steps" || !nx.inScope(this.scope, { lane })) return;
        for (let r = 0; r < Math.min(lane.tracks, 4); r++) {
          this.add(this.head, lane.first + r, y);
          if (r === 0) this.labels.push({ head: true, y, lane, number });
          y += ROW;
        }
      });
      meta.annotations.forEach((track, at) => {
        if (at === 0) this.labels.push({ head: true, y, annotations: true });
        this.add(this.head, track, y, { only: meta.annotation });
        y += ROW;
      });
      let left = PINNED_ROWS;
      if (this.arranged.pinned.length && y) y += LANE_LEAD;
      for (const item of this.arranged.pinned) {
        const most = Math.max(1, Math.min(8, left));
        y = this.place(item, this.head, y, most);
        if (item.lane) left -= Math.min(most, item.lane.tracks);
      }
      return y;
    }

    /** Lay out a lane or counter from `y`, with at most so many rows; returns where the next begins. */
    place(item, list, y, most) {
      const pinned = list === this.head;
      const top = y;
      const { key, lane, series, number } = item;
      if (series) {
        this.labels.push({ key, series, y, rows: 2, pinned });
        this.counters.push({ series: number, y, head: pinned });
        y += nx.counters.HEIGHT + 6;
      } else {
        const shown = Math.min(this.lanes.folded(key) ? 1 : most, lane.tracks);
        this.labels.push({ key, y, lane, number, rows: shown, pinned, of: pinned || this.lanes.group !== "process" ? this.processOf(lane) : "" });
        y += pinned ? 0 : LANE_LEAD;
        for (let r = 0; r < shown; r++) {
          this.add(list, lane.first + r, y, { pinned });
          y += ROW;
        }
        y += pinned ? LANE_LEAD : LANE_GAP;
      }
      this.extent.set(key, [top, y]);
      return y;
    }

    /** Which process a lane is of, short; "" where there is only one. */
    processOf(lane) {
      if (!this.severalProcesses || this.lanes.group === "rank") return "";
      return this.severalRanks ? `rank ${lane.rank}` : lane.process_name || String(lane.process);
    }

    /** Keys of all lanes in their present order, filtered or not. */
    order() {
      const { group, moves } = this.lanes;
      return nx.arrangeLanes(this.meta, new nx.LaneChoice({ group: "none", moves })).groups.flatMap((each) => each.items.map((item) => item.key));
    }

    add(list, track, y, more = {}) {
      const [block, r] = this.blockOfTrack.get(track);
      const row = { track, y, block, r, head: list === this.head, ...more };
      list.push(row);
      if (row.only === undefined) this.trackRow.set(track, row);
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
      return this.counters.filter((row) => row.head || (row.y + h > this.scroll && row.y < this.scroll + this.height));
    }

    counterAt(y, head) {
      const at = head ? y : y + this.scroll;
      return this.counters.find((row) => row.head === head && row.y <= at && at < row.y + nx.counters.HEIGHT) || null;
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
