/* Timeline: what comes from the server, and what is kept of it. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const TILE_BYTES = 64 << 20;
  const NAME_BYTES = 16 << 20;
  const MAX_TILES = 96; // what the server accepts in one request
  const MAX_BLOCKS = 64;
  const IN_FLIGHT = 3;

  class Gone extends Error {}
  nx.Gone = Gone;

  /** Least recently used values, bounded by their `bytes`. */
  nx.ByteMap = class ByteMap {
    constructor(limit) {
      this.limit = limit;
      this.bytes = 0;
      this.map = new Map();
    }
    get(key) {
      const value = this.map.get(key);
      if (value !== undefined) {
        this.map.delete(key);
        this.map.set(key, value);
      }
      return value;
    }
    has(key) {
      return this.map.has(key);
    }
    set(key, value) {
      const old = this.map.get(key);
      if (old) this.bytes -= old.bytes;
      this.map.delete(key);
      this.map.set(key, value);
      this.bytes += value.bytes;
      for (const [oldest, dropped] of this.map) {
        if (this.bytes <= this.limit) break;
        this.map.delete(oldest);
        this.bytes -= dropped.bytes;
      }
    }
    clear() {
      this.map.clear();
      this.bytes = 0;
    }
  };
  const { ByteMap } = nx;

  async function json(url, signal) {
    const response = await fetch(url, { signal, headers: { Accept: "application/json" } });
    return checked(response);
  }
  async function checked(response) {
    const type = response.headers.get("Content-Type") || "";
    if (!type.includes("json")) {
      throw new Error(response.status === 403 ? "The server was restarted. Open the address that it printed." : `The server answered ${response.status}.`);
    }
    const body = await response.json();
    if (response.ok) return body;
    const Kind = response.status === 410 ? Gone : Error;
    throw new Kind(body.error || `The server answered ${response.status}.`);
  }

  const early = new Map();
  /** Ask for the meta document as soon as the script runs: Dash needs half a second to start. */
  nx.fetchEarly = function (traceId) {
    if (!early.has(traceId)) {
      const promise = json(`/api/v1/t/${encodeURIComponent(traceId)}/meta`);
      promise.catch(() => {}); // whoever uses it sees the error
      early.set(traceId, promise);
    }
  };
  const here = /^\/t\/([^/]+)\/timeline\/?$/.exec(window.location.pathname);
  if (here) nx.fetchEarly(decodeURIComponent(here[1]));

  nx.Source = class {
    /** `changed()` is called when something new can be drawn, `failed(error)` when a request
        failed, `worked()` when one did not. */
    constructor(traceId, changed, failed, worked) {
      this.root = `/api/v1/t/${encodeURIComponent(traceId)}`;
      this.traceId = traceId;
      this.changed = changed;
      this.failed = failed;
      this.worked = worked;
      this.tiles = new ByteMap(TILE_BYTES);
      this.marks = new ByteMap(8 << 20);
      this.paints = new ByteMap(16 << 20);
      this.colour = "kind"; // what slices are coloured by
      this.filter = ""; // query string of the highlighted events, "" for none
      this.flights = new Map(); // key → flight
      this.running = 0;
      this.pages = new ByteMap(NAME_BYTES); // names as they are needed: a trace can have millions
      this.asked = new Set();
      this.closed = false;
      this.gone = false; // the trace changed: nothing more is asked for under this fingerprint
      this.pausedUntil = 0;
    }

    /** The meta document; `progress(share)` while the index is being built. */
    async open(progress) {
      let first = early.get(this.traceId);
      early.delete(this.traceId);
      for (;;) {
        const meta = await (first || json(this.root + "/meta"));
        first = null;
        if (this.closed) return null;
        if (meta.state === "ready") {
          this.meta = meta;
          this.base = `${this.root}/${meta.fp}`;
          this.blockOf = new Map();
          return meta;
        }
        if (meta.state === "failed") throw new Error(meta.error);
        progress(meta.progress);
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }

    close() {
      this.closed = true;
      for (const flight of this.flights.values()) flight.abort.abort();
      this.flights.clear();
      this.release();
    }

    /** Forget what can be asked for again. */
    release() {
      for (const cache of [this.tiles, this.marks, this.paints, this.pages]) cache.clear();
    }

    ask(what, parameters, signal) {
      return json(`${this.base}/${what}?${new URLSearchParams(parameters)}`, signal);
    }

    tile(block, k, i) {
      return this.tiles.get(`${block}/${k}/${i}`);
    }

    mark(block, k, i) {
      return this.marks.get(`${this.filter}|${block}/${k}/${i}`);
    }

    /** The class of each entry of a tile, null until it is known. */
    paint(block, k, i) {
      const found = this.paints.get(`${this.colour}|${block}/${k}/${i}`);
      return found ? found.bits : null;
    }

    /** Tiles to draw [i] of a block with: itself, else a coarser one, else finer ones. */
    cover(block, k, i, out) {
      const own = this.tile(block, k, i);
      if (own) {
        out.push({ tile: own, k, i });
        return true;
      }
      for (let up = 1; up <= 16 && k + up <= 44; up++) {
        const j = Math.floor(i / 2 ** up);
        const tile = this.tile(block, k + up, j);
        if (tile) {
          const last = out[out.length - 1];
          if (last && last.tile === tile) last.clip[2] = i + 1;
          else out.push({ tile, k: k + up, i: j, clip: [k, i, i + 1] });
          return false;
        }
      }
      for (let down = 1; down <= 3 && k - down >= 0; down++) {
        let found = false;
        for (let j = i * 2 ** down; j < (i + 1) * 2 ** down; j++) {
          const tile = this.tile(block, k - down, j);
          if (tile) {
            out.push({ tile, k: k - down, i: j });
            found = true;
          }
        }
        if (found) return false;
      }
      return false;
    }

    /** Fetch what is missing of `blocks` x `numbers`, then of the neighbours in `ahead`. */
    want(blocks, k, numbers, ahead) {
      if (this.closed || this.gone || performance.now() < this.pausedUntil) return;
      const sets = [[blocks, numbers], [blocks, ahead]];
      const needed = new Set();
      for (const [bs, is] of sets) for (const b of bs) for (const i of is) needed.add(`${b}/${k}/${i}`);
      for (const flight of new Set(this.flights.values())) {
        if (!flight.keys.some((key) => needed.has(key))) flight.abort.abort();
      }
      for (const kind of ["tiles", "paints", "marks"]) {
        if (kind === "marks" && !this.filter) continue;
        if (kind === "paints" && this.colour === "kind") continue;
        for (const [bs, is] of sets) this.request(kind, bs, k, is);
      }
    }

    request(kind, blocks, k, numbers) {
      const cache = this[kind];
      const prefix = { tiles: "", marks: this.filter + "|", paints: this.colour + "|" }[kind];
      const missing = (b, i) => {
        const key = `${prefix}${b}/${k}/${i}`;
        return !cache.has(key) && !this.flights.has(kind + key);
      };
      const is = numbers.filter((i) => blocks.some((b) => missing(b, i)));
      if (!is.length) return;
      const bs = blocks.filter((b) => is.some((i) => missing(b, i)));
      const perRequest = Math.min(MAX_BLOCKS, Math.max(1, Math.floor(MAX_TILES / is.length)));
      for (let at = 0; at < bs.length; at += perRequest) {
        if (this.running >= IN_FLIGHT) return; // what is still missing is asked for when one comes back
        this.send(kind, cache, prefix, bs.slice(at, at + perRequest), k, is);
      }
    }

    async send(kind, cache, prefix, blocks, k, numbers) {
      const keys = [];
      for (const b of blocks) for (const i of numbers) keys.push(`${b}/${k}/${i}`);
      const flight = { keys, abort: new AbortController() };
      const marked = keys.map((key) => kind + prefix + key);
      for (const key of marked) this.flights.set(key, flight);
      this.running++;
      try {
        const filter = { tiles: "", marks: "&" + this.filter, paints: "&by=" + this.colour }[kind];
        const url = `${this.base}/${kind}?k=${k}&i=${numbers.join()}&b=${blocks.join()}${filter}`;
        const response = await fetch(url, { signal: flight.abort.signal });
        if (!response.ok) await checked(response);
        const buffer = await response.arrayBuffer();
        const view = new DataView(buffer);
        this.worked();
        let at = 0;
        for (const key of keys) {
          const length = view.getUint32(at, true);
          const value = kind === "tiles" ? nx.decodeTile(buffer, at + 4, length) : { bits: new Uint8Array(buffer, at + 4, length), bytes: length };
          cache.set(prefix + key, value);
          at += 4 + length;
        }
      } catch (error) {
        if (error.name !== "AbortError" && !this.closed) this.pause(error);
      } finally {
        this.running--;
        for (const key of marked) if (this.flights.get(key) === flight) this.flights.delete(key);
        if (!this.closed) this.changed();
      }
    }

    /** After a failure: say it, and try again later, not at once. */
    pause(error) {
      this.gone = this.gone || error instanceof Gone;
      const wait = 2000;
      if (performance.now() >= this.pausedUntil) {
        this.pausedUntil = performance.now() + wait;
        if (!this.gone) setTimeout(() => !this.closed && this.changed(), wait + 10);
      }
      this.failed(error);
    }

    /** The text of a name, or "" until its page has come. */
    name(number) {
      const page = Math.floor(number / this.meta.names_page);
      const names = this.pages.get(page);
      if (names) return names.texts[number % this.meta.names_page] || "";
      if (!this.asked.has(page) && number < this.meta.names) {
        this.asked.add(page);
        this.ask("names", { page }).then((texts) => {
          this.asked.delete(page);
          this.pages.set(page, { texts, bytes: texts.reduce((sum, text) => sum + 2 * text.length + 24, 64) });
          this.changed();
        }, (error) => {
          this.asked.delete(page);
          if (error instanceof Gone) this.failed(error);
        });
      }
      return "";
    }
  };
})();
