"""The timeline's endpoints on the app's own server.

Under ``/api/v1/t/<trace id>``: ``meta`` (JSON), and under the fingerprint that it names,
``<fp>/tiles``, ``marks``, ``paints``, ``colours``, ``names``, ``hit``, ``event``, ``walk``,
``search``, ``window``, ``span``, ``series``. No endpoint takes a path; every number is clamped
and every reply is bounded. What never changes under one fingerprint may be cached by the
browser for good.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui.timeline import codes, colours, counters, details, events, marks, match, span
from neuron_explorer.ui.timeline.categories import CATEGORIES
from neuron_explorer.ui.timeline.categories import INDEX as CATEGORY
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.service import Timeline, Timelines, warm
from neuron_explorer.ui.timeline.tiles import BINS, MAX_SHIFT, SUB, encode_tile, tile_count, tile_span

if TYPE_CHECKING:
    import flask

    from neuron_explorer.ui.registry import Registry

MAX_BLOCKS: Final = 64
MAX_TILES: Final = 96
MAX_HITS: Final = 200
MAX_RANGES: Final = 256
MAX_SERIES: Final = 32
NAMES_PAGE: Final = 1024
DRAWN_NAME: Final = 160
"""Characters of a name that a label can show."""
FOR_GOOD: Final = "private, max-age=31536000, immutable"


class Refused(Exception):
    """A request that is not answered: status and one sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def register(server: flask.Flask, registry: Registry) -> Timelines:
    """Add the endpoints to the server. ``registry`` maps trace ids to traces."""
    import flask

    timelines = Timelines(registry)
    server.extensions["timelines"] = timelines  # for whoever wants an index built ahead of the first look

    def reply(body: Any, cache: str = "private, no-store", status: int = 200) -> flask.Response:
        if isinstance(body, bytes):
            response = flask.Response(body, status, mimetype="application/octet-stream")
        else:
            text = json.dumps(body, separators=(",", ":"))
            response = flask.Response(text, status, mimetype="application/json")
        response.headers["Cache-Control"] = cache
        return response

    def guarded(work: Callable[[], flask.Response]) -> flask.Response:
        try:
            return work()
        except Refused as error:
            return reply({"error": str(error)}, status=error.status)
        except FileNotFoundError:
            return reply({"error": "Its file is no longer there: moved or deleted.", "gone": True}, status=410)
        except (NeuronExplorerError, OSError) as error:
            return reply({"error": f"The trace cannot be read: {error}", "gone": True}, status=410)

    @server.get("/api/v1/t/<trace_id>/meta")
    def timeline_meta(trace_id: str) -> flask.Response:
        return guarded(lambda: reply(meta(timelines, trace_id)))

    @server.get("/api/v1/t/<trace_id>/<fp>/<what>")
    def timeline_part(trace_id: str, fp: str, what: str) -> flask.Response:
        def work() -> flask.Response:
            answer = PARTS.get(what)
            if answer is None:
                raise Refused(404, "There is no such endpoint.")
            timeline = timelines.known(trace_id, fp)
            if timeline is None or timeline.index is None:
                raise Refused(410, "The trace has changed since this page was opened.")
            body, cache = answer(timelines, timeline, timeline.index, flask.request.args)
            timelines.tidy()
            return reply(body, cache)

        return guarded(work)

    return timelines


Answer = tuple[Any, str]
Args = Mapping[str, str]
NO_STORE: Final = "private, no-store"


def meta(timelines: Timelines, trace_id: str) -> dict[str, Any]:
    """What the client needs before the first tile, or how far the build has come."""
    timeline = timelines.current(trace_id)
    if timeline is None:
        raise Refused(404, "This server does not show that trace.")
    if timeline.problem:
        return {"state": "failed", "error": timeline.problem}
    index = timeline.index
    if index is None:
        return {"state": "building", "progress": round(timeline.progress, 3)}
    info = index.info
    used = [i for i in range(len(CATEGORIES)) if index.minimap[i].any()]
    return {
        "state": "ready",
        "fp": index.fingerprint,
        "end": index.end,
        # Nanoseconds since 1970 pass what a JavaScript number holds exactly.
        "start_unix_ns": str(timeline.trace.metadata.get("start_unix_ns", 0)),
        "events": index.events,
        "index_bytes": index.nbytes,
        "bins": BINS,
        "sub": SUB,
        "names": len(index.names),
        "names_page": NAMES_PAGE,
        "categories": [{"key": c.key, "label": c.label, "mark": c.mark} for c in CATEGORIES],
        "used": used,
        "lanes": [_lane(index, lane) for lane in index.lanes],
        "blocks": [[b.lane, b.first, b.count] for b in index.blocks],
        "minimap": {str(i): index.minimap[i].tolist() for i in used},
        "annotations": index.annotation_tracks,
        "annotation": CATEGORY["host"],
        "series": [{k: s[k] for k in ("name", "unit", "n", "low", "high", "process", "rank")} for s in index.series],
        "unended": info["unended"],
        "out_of_range": info["out_of_range"],
        "not_drawn": info["not_drawn"],
        "steps": str(timeline.trace.metadata.get("steps", {}).get("rule_text", ""))[:200],
        "emulated": bool(timeline.trace.metadata.get("device", {}).get("emulated")),
        "asynchronous": timeline.trace.metadata.get("device", {}).get("type") not in ("cpu", "unknown", None, ""),
    }


def _lane(index: Index, lane: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("lane", "kind", "name", "rank", "process", "process_name", "group", "thread", "device", "first",
            "tracks", "events", "hidden")  # fmt: skip
    rows = [index.track(t)[1:] for t in range(lane["first"], lane["first"] + lane["tracks"])]
    # Only lanes with overlaps need to say which rows are which depth.
    subs = [sub for _, sub in rows] if any(sub for _, sub in rows) else None
    return {**{k: lane[k] for k in keys}, "subs": subs}


def _tiles(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    shift, numbers, blocks = _tile_request(index, args)
    parts = []
    for b in blocks:
        block = index.blocks[b]
        for i in numbers:
            tracks = range(block.first, block.first + block.count)
            key = (index.fingerprint, b, shift, i)
            data = timelines.tiles.get(key, lambda t=tracks, i=i: encode_tile(index, t, shift, i))  # type: ignore[misc]
            parts += [struct.pack("<I", len(data)), data]
    return b"".join(parts), FOR_GOOD


def _marks(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    shift, numbers, blocks = _tile_request(index, args)
    found = _match(timelines, timeline, index, args)
    parts = []
    for b in blocks:
        block = index.blocks[b]
        for i in numbers:
            data = marks.bitmap(found, range(block.first, block.first + block.count), shift, i)
            parts += [struct.pack("<I", len(data)), data]
    return b"".join(parts), FOR_GOOD


def _codes(timelines: Timelines, timeline: Timeline, index: Index, by: str) -> codes.RowCodes:
    if by not in codes.CRITERIA:
        raise Refused(400, f"Events are coloured by {', '.join(codes.CRITERIA)}.")
    key = ("codes", timeline.fingerprint, by)
    return timelines.codes.get(key, lambda: codes.row_codes(index, timeline.trace.path, by))


def _colours(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    by = args.get("by", "")
    return {"classes": colours.legend(_codes(timelines, timeline, index, by), by)}, FOR_GOOD


def _paints(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    shift, numbers, blocks = _tile_request(index, args)
    by = args.get("by", "")
    found = _codes(timelines, timeline, index, by)
    parts = []
    for b in blocks:
        block = index.blocks[b]
        for i in numbers:
            data = colours.paint(index, found, by, range(block.first, block.first + block.count), shift, i)
            parts += [struct.pack("<I", len(data)), data]
    return b"".join(parts), FOR_GOOD


def _span(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    t0 = _number(args, "t0", 0, index.end)
    t1 = max(t0 + 1, _number(args, "t1", 0, index.end))
    if args.get("by") == "line":
        return {"groups": span.by_line(index, t0, t1)}, FOR_GOOD
    return {"groups": span.by_op(index, t0, t1)}, FOR_GOOD


def _tile_request(index: Index, args: Args) -> tuple[int, list[int], list[int]]:
    shift = _number(args, "k", 0, MAX_SHIFT)
    numbers = _numbers(args, "i", tile_count(index, shift), MAX_TILES)
    blocks = _numbers(args, "b", len(index.blocks), MAX_BLOCKS)
    if len(numbers) * len(blocks) > MAX_TILES:
        raise Refused(400, f"At most {MAX_TILES} tiles a request.")
    return shift, numbers, blocks


def _names(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    page = _number(args, "page", 0, max(0, (len(index.names) - 1) // NAMES_PAGE))
    return [n[:DRAWN_NAME] for n in index.names[page * NAMES_PAGE : (page + 1) * NAMES_PAGE]], FOR_GOOD


def _hit(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    track = _track(index, args)
    t = _number(args, "t", 0, index.end)
    t0 = _number(args, "t0", 0, index.end, default=t)
    t1 = _number(args, "t1", 0, index.end, default=t + 1)
    event, n = events.at(index, track, t, min(t0, t), max(t1, t + 1))
    return {"event": event, "n": n}, FOR_GOOD


def _event(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    if "id" in args:
        row = details.row_of_id(index, timeline.trace, _number(args, "id", 0, (1 << 63) - 1))
    else:
        row = _number(args, "row", 0, (1 << 32) - 1)
    found = None if row is None else details.event_details(index, timeline.trace, row)
    if found is None:
        raise Refused(404, "There is no such event in this trace.")
    return found, FOR_GOOD


def _walk(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    direction = args.get("go", "")
    if direction == "first":
        t0 = _number(args, "t0", 0, index.end, default=0)
        t1 = _number(args, "t1", 0, index.end, default=index.end)
        blocks = _numbers(args, "b", len(index.blocks), MAX_BLOCKS)
        tracks = [
            t for b in blocks for t in range(index.blocks[b].first, index.blocks[b].first + index.blocks[b].count)
        ]
        return {"event": events.first_in(index, tracks, t0, max(t1, t0 + 1))}, FOR_GOOD
    if direction not in ("next", "previous", "parent", "child"):
        raise Refused(400, "Events are walked by first, next, previous, parent and child.")
    track = _track(index, args)
    position = details.located(
        index, track, _number(args, "start", 0, index.end), _number(args, "row", 0, (1 << 32) - 1)
    )
    if position is None:
        raise Refused(404, "There is no such event in this trace.")
    return {"event": events.step_from(index, track, position, direction)}, FOR_GOOD


def _search(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    found = _match(timelines, timeline, index, args)
    limit = _number(args, "limit", 0, MAX_HITS, default=50)
    first = _number(args, "first", 0, 1 << 32, default=0)
    order = found.by_time
    if "near" in args:
        # The first hit at or after a time: where stepping through the hits begins.
        near = _number(args, "near", 0, index.end)
        start = index.column("start")
        first = bisect_left(order, near, key=lambda position: start[position])
        first = 0 if first >= len(order) else first
    return {
        "count": len(order),
        "cut": found.cut,
        **({"where": marks.over_the_run(found).tolist()} if "where" in args else {}),
        "first": first,
        "hits": [events.brief(index, index.track_of(p), p) for p in order[first : first + limit].tolist()],
    }, FOR_GOOD


def _series(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    shift = _number(args, "k", 0, MAX_SHIFT)
    number = _number(args, "i", 0, tile_count(index, shift) - 1)
    t0, _ = tile_span(shift, number)
    chosen = _numbers(args, "s", len(index.series), MAX_SERIES)
    return {str(s): counters.binned(*index.samples(s), t0, shift, BINS) for s in chosen}, FOR_GOOD


def _window(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    t0 = _number(args, "t0", 0, index.end)
    t1 = _number(args, "t1", 0, index.end, default=index.end)
    total = 0
    for track in _ranges(args, "tracks", index.track_count):
        lo, hi = index.window(track, t0, max(t1, t0 + 1))
        total += hi - lo
    return {"events": total}, FOR_GOOD


def _warm(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> Answer:
    warm(timeline)
    return {"names": len(index.names)}, NO_STORE


PARTS: Final[dict[str, Callable[[Timelines, Timeline, Index, Args], Answer]]] = {
    "tiles": _tiles, "marks": _marks, "names": _names, "hit": _hit, "event": _event, "walk": _walk,
    "search": _search, "paints": _paints, "colours": _colours, "span": _span,
    "series": _series, "window": _window, "warm": _warm,
}  # fmt: skip


def _match(timelines: Timelines, timeline: Timeline, index: Index, args: Args) -> match.Match:
    terms = match.parse(args.get("q", ""))
    terms += tuple(match.Term(f, args[f][: match.MAX_QUERY]) for f in match.FIELDS if args.get(f))
    key = ("match", index.fingerprint, terms)
    try:
        return timelines.matches.get(key, lambda: match.search(index, timeline.trace, terms))
    except match.QueryFailed as error:
        raise Refused(503 if error.busy else 400, str(error)) from None


def _track(index: Index, args: Args) -> int:
    if not index.track_count:
        raise Refused(404, "The trace has no events.")
    return _number(args, "track", 0, index.track_count - 1)


def _number(args: Args, name: str, low: int, high: int, default: int | None = None) -> int:
    """An integer argument, clamped to [low, high]."""
    text = args.get(name)
    if text is None:
        if default is None:
            raise Refused(400, f"The argument {name} is missing.")
        return min(max(default, low), high)
    # Twenty digits are enough for any 64-bit number; longer ones would only cost time.
    if len(text) > 20 or not text.lstrip("-").isdecimal():
        raise Refused(400, f"The argument {name} is no whole number.")
    return min(max(int(text), low), high)


def _ranges(args: Args, name: str, count: int) -> list[int]:
    """The numbers below ``count`` in a list of ranges (``0-5,9-12``), each once."""
    parts = args.get(name, "").split(",", MAX_RANGES)
    if len(parts) > MAX_RANGES:
        raise Refused(400, f"At most {MAX_RANGES} ranges for {name}.")
    chosen: set[int] = set()
    for part in parts:
        low, dash, high = part.partition("-")
        if not (dash and low.isdecimal() and high.isdecimal() and len(part) <= 24):
            raise Refused(400, f"The argument {name} is a list of ranges.")
        chosen.update(range(int(low), min(int(high) + 1, count)))
    return sorted(chosen)


def _numbers(args: Args, name: str, count: int, most: int) -> list[int]:
    """A list of different numbers below ``count``; those beyond it are left out."""
    parts = args.get(name, "").split(",", most)
    if len(parts) > most:
        raise Refused(400, f"At most {most} values for {name}.")
    numbers = []
    for part in parts:
        if not part.isdecimal() or len(part) > 20:
            raise Refused(400, f"The argument {name} is a list of whole numbers.")
        if int(part) < count and int(part) not in numbers:
            numbers.append(int(part))
    return numbers
