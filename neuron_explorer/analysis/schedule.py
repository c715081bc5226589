"""A step as a schedule: what the host did one after the other, and what each stream ran, with what each waited for.

The host is one line of segments that covers the step: the thread that takes the steps, and where it runs
nothing while a backward thread does (``backward()`` waits for it), that thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import activity as a
from neuron_explorer.analysis.answer import place
from neuron_explorer.analysis.breakdown import LONG_GAP_NS
from neuron_explorer.analysis.intervals import FAR
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.scope import Scope
from neuron_explorer.analysis.selection import ENGINE_CALLS, kinds_sql

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_EVENTS: Final = 500_000
"""Events of one step that are looked at."""
NEAR_NS: Final = 10_000
"""An execution that begins so shortly after one of another stream ended, and was queued before, waited for it."""

_DEVICE_KINDS: Final = {a.WORK: "device", a.COLLECTIVE: "device_collective", a.COPY: "device_copy"}


@dataclass(frozen=True)
class What:
    """What a segment or an execution is. ``kind``: a key of ``critical_path.KINDS``; ``place``: "" for none."""

    kind: str
    name: str
    place: str

    @property
    def line(self) -> str:
        """What a what-if is about: its line, else its name."""
        return self.place or self.name


@dataclass
class Segment:
    """A piece of the host's time, ns. ``target``: position of the execution it waited for, -1 for none."""

    start: int
    stop: int
    what: What
    target: int = -1


@dataclass
class Run:
    """An execution on a stream. ``launched``: the moment on the host at which it was launched at the latest.

    ``before``: the execution before it on its stream; ``other``: one of another stream that it waited for;
    -1 for none. Both are positions in ``Schedule.runs``.
    """

    start: int
    stop: int
    stream: int
    what: What
    launched: int
    before: int = -1
    other: int = -1
    pipelined: bool = False
    """It began while ``before``, on the same engine, still ran: it follows from that one's begin."""


@dataclass(frozen=True)
class Schedule:
    """``segments`` cover [``low``, ``high``) without a hole; ``runs`` by start. ``unlaunched``: executions that
    name no launch. ``too_many``: events where there are more than are looked at (then there is no schedule)."""

    low: int
    high: int
    segments: list[Segment]
    runs: list[Run]
    unlaunched: int = 0
    too_many: int = 0
    of_device: bool = False
    """There is no host: every execution is taken to have waited for the one that ended last before it began,
    or to follow the one on its engine that it overlaps."""


def _without_host(runs: list[Run], low: int, high: int) -> list[Segment]:
    """The segments of a profile of the device alone: before its work, its work, and after it."""
    order = sorted(range(len(runs)), key=lambda number: runs[number].stop)
    stops = [runs[number].stop for number in order]
    latest: dict[int, int] = {}
    longest = -1
    for number, run in enumerate(runs):
        ended = bisect_right(stops, run.start) - 1
        beside = latest.get(run.stream, -1)
        if beside < 0 or not runs[beside].start < run.start < runs[beside].stop:
            # What overlaps it elsewhere is only asked where nothing had ended.
            beside = longest if ended < 0 and longest >= 0 and runs[longest].start < run.start else -1
        run.pipelined = beside >= 0
        run.before, run.other = beside if beside >= 0 else order[ended] if ended >= 0 else -1, -1
        run.launched = min(low, run.start) if run.before >= 0 else run.start
        latest[run.stream] = number
        if longest < 0 or run.stop > runs[longest].stop:
            longest = number
    nothing = What("unexplained", "", "")
    first, last = max(low, min(run.start for run in runs)), min(high, stops[-1])
    segments = [Segment(low, first, nothing)] if first > low else []
    if last > first:
        segments.append(Segment(first, last, What("sync", "", ""), order[-1] if stops[-1] <= high else -1))
    if high > max(first, last):
        segments.append(Segment(max(first, last), high, nothing))
    return segments


def schedule(trace: Trace, scope: Scope, low: int, high: int, executes: bool) -> Schedule:
    """The schedule of [``low``, ``high``) of a rank."""
    hosts = ([scope.main.lane] if scope.main else []) + [x.lane for x in scope.hosts]
    lanes = [*hosts, *(x.lane for x in scope.devices)]
    overlaps = f'"start" < {int(high)} AND "start" + least(duration, {FAR}) > {int(low)} AND "start" < {FAR}'
    number = trace.sql_arrow(
        f"SELECT count(*) FROM events WHERE lane IN ({', '.join(map(str, lanes)) or 'NULL'}) AND duration > 0 "
        f"AND {overlaps}"
    ).column(0)[0].as_py()  # fmt: skip
    if number > MOST_EVENTS:
        return Schedule(low, high, [], [], too_many=number)
    own = "operator" if executes and not scope.devices else "submit"
    segments = _host(trace, scope, low, high, own, overlaps)
    runs, unlaunched = _runs(trace, scope, overlaps)
    if scope.main is None and not scope.hosts and runs:
        return Schedule(low, high, _without_host(runs, low, high), runs, of_device=True)
    _order(runs)
    _targets(segments, runs)
    return Schedule(low, high, segments, runs, unlaunched)


def _host(trace: Trace, scope: Scope, low: int, high: int, own: str, overlaps: str) -> list[Segment]:
    main = [] if scope.main is None else _rows(trace, [scope.main.lane], overlaps, own)
    segments = _chain(main, low, high)
    table = a.lane_table(trace)
    compiles = [x.lane for x in table if x.kind == "compile" and x.process == scope.process]
    if scope.main is not None:
        compiles = [x.lane for x in table if x.lane in compiles and x.os_thread == scope.main.os_thread]
    collector = [x.lane for x in table if x.kind == "gc" and x.process == scope.process]
    for lanes in (compiles, collector):
        segments = _filled(segments, _chain(_rows(trace, lanes, overlaps, own), low, high, gaps=False))
    backward = trace.sql_arrow(
        f"SELECT DISTINCT lane FROM events WHERE lane IN ({_numbers([x.lane for x in scope.hosts])}) "
        f"AND (kind = 'autograd' OR {ENGINE_CALLS}) AND {overlaps} ORDER BY lane"
    ).column(0).to_pylist()  # fmt: skip
    for lane in backward:
        segments = _filled(segments, _chain(_rows(trace, [lane], overlaps, own), low, high, gaps=False))
    return _named_gaps(segments, seen=bool(main))


Row = tuple[int, int, What]


def _numbers(lanes: list[int]) -> str:
    return ", ".join(str(int(n)) for n in lanes) or "NULL"


def _rows(trace: Trace, lanes: list[int], overlaps: str, own: str) -> list[Row]:
    """Start, stop and meaning of the events of host lanes, outer ones first."""
    if not lanes:
        return []
    table = trace.sql_arrow(
        f'SELECT "start", duration, CAST({a.HOST_SORT} AS TINYINT) AS sort, name, file, line FROM events '
        f"WHERE lane IN ({_numbers(lanes)}) AND {kinds_sql(a.HOST_KINDS)} AND duration > 0 AND {overlaps} "
        'ORDER BY "start", duration DESC, id'
    )
    whats = _Whats({a.WORK: own})
    return [
        (start, start + min(duration, FAR), whats.of(a.SORTS[sort], name, file, line))
        for start, duration, sort, name, file, line in zip(*(c.to_pylist() for c in table.columns), strict=True)
    ]


class _Whats:
    """One object for each meaning: a step repeats few."""

    def __init__(self, kinds: dict[str, str]) -> None:
        self._kinds = kinds
        self._known: dict[Any, What] = {}

    def of(self, sort: str, name: str | None, file: str | None, line: int | None) -> What:
        key = (sort, name, file, line)
        known = self._known.get(key)
        if known is None:
            where = plain(place(file, line), 400) if file else ""
            known = What(self._kinds.get(sort, sort), plain(name or "", 400), where)
            self._known[key] = known
        return known


_GAP: Final = What("python", "", "")


def _chain(rows: list[Row], low: int, high: int, *, gaps: bool = True) -> list[Segment]:
    """The innermost event at every moment. ``gaps``: where there is none is a segment, too."""
    out: list[Segment] = []
    stack: list[tuple[int, What]] = []
    at = low

    def until(time: int, what: What | None) -> None:
        nonlocal at
        if time > at:
            if what is not None or gaps:
                out.append(Segment(at, time, what or _GAP))
            at = time

    for start, stop, what in rows:
        begin = max(start, low)
        while stack and stack[-1][0] <= begin:
            ended, inner = stack.pop()
            until(ended, inner)
        until(begin, stack[-1][1] if stack else None)
        end = min(stop, high, stack[-1][0] if stack else high)
        if end > begin:
            stack.append((end, what))
    while stack:
        ended, inner = stack.pop()
        until(ended, inner)
    until(high, None)
    return out


def _filled(segments: list[Segment], fillers: list[Segment]) -> list[Segment]:
    """Segments whose gaps hold the fillers (sorted, disjoint) where there are some."""
    if not fillers:
        return segments
    starts = [f.start for f in fillers]
    out: list[Segment] = []
    for segment in segments:
        if segment.what is not _GAP:
            out.append(segment)
            continue
        at = segment.start
        position = max(bisect_right(starts, at) - 1, 0)
        while position < len(fillers) and fillers[position].start < segment.stop:
            filler = fillers[position]
            begin, end = max(filler.start, at), min(filler.stop, segment.stop)
            if end > begin:
                if begin > at:
                    out.append(Segment(at, begin, _GAP))
                out.append(Segment(begin, end, filler.what))
                at = end
            position += 1
        if at < segment.stop:
            out.append(Segment(at, segment.stop, _GAP))
    return out


def _named_gaps(segments: list[Segment], seen: bool) -> list[Segment]:
    """Gaps with the line of what follows; long ones, and all where no host was seen, are unexplained."""
    following = ""
    for segment in reversed(segments):
        if segment.what is _GAP:
            long = segment.stop - segment.start > LONG_GAP_NS or not seen
            segment.what = What("unexplained" if long else "python", "", following)
        elif segment.what.place:
            following = segment.what.place
    return segments


def _runs(trace: Trace, scope: Scope, overlaps: str) -> tuple[list[Run], int]:
    if not scope.devices:
        return [], 0
    here = f"lane IN ({_numbers([x.lane for x in scope.devices])}) AND {kinds_sql(a.DEVICE_KINDS)} AND duration > 0"
    table = trace.sql_arrow(
        f'WITH runs AS (SELECT id, lane, "start", duration, CAST({a.DEVICE_SORT} AS TINYINT) AS sort, name, file, '
        f"line, correlation FROM events WHERE {here} AND {overlaps}), "
        "wanted AS (SELECT DISTINCT correlation AS id FROM runs WHERE correlation >= 0), "
        'launchers AS (SELECT id, any_value(file) AS file, any_value(line) AS line, max("start") AS begun, '
        f"max(least(greatest(duration, 0), {FAR})) AS took FROM events "
        "WHERE id IN (SELECT id FROM wanted) GROUP BY id) "
        "SELECT runs.lane, runs.start, runs.duration, runs.sort, runs.name, coalesce(runs.file, launchers.file) AS f, "
        "CASE WHEN runs.file IS NULL THEN launchers.line ELSE runs.line END AS l, launchers.begun, launchers.took "
        "FROM runs LEFT JOIN launchers ON launchers.id = runs.correlation ORDER BY runs.start, runs.lane, runs.id"
    )
    whats = _Whats(_DEVICE_KINDS)
    runs, unlaunched = [], 0
    for lane, start, duration, sort, name, file, line, begun, took in zip(
        *(c.to_pylist() for c in table.columns), strict=True
    ):
        launched = start
        if begun is None or begun > start:
            unlaunched += 1
        else:
            launched = min(begun + took, start)
        what = whats.of(a.SORTS[sort], name, file, line)
        runs.append(Run(start, start + min(duration, FAR), lane, what, launched))
    return runs, unlaunched


def _order(runs: list[Run]) -> None:
    """What each execution came after: on its stream, and on another one where it was queued and began right then."""
    last: dict[int, int] = {}
    ended: list[tuple[int, int]] = []  # (stop, position), sorted
    for position, run in enumerate(runs):
        run.before = last.get(run.stream, -1)
        since = max(runs[run.before].stop if run.before >= 0 else -1, run.launched)
        found = bisect_right(ended, (run.start, len(runs))) - 1
        while found >= 0 and ended[found][0] > since and run.start - ended[found][0] <= NEAR_NS:
            if runs[ended[found][1]].stream != run.stream:
                run.other = ended[found][1]
                break
            found -= 1
        known = last.get(run.stream)
        if known is None or runs[known].stop <= run.stop:
            last[run.stream] = position
        entry = (run.stop, position)
        ended.insert(bisect_left(ended, entry), entry)


def _targets(segments: list[Segment], runs: list[Run]) -> None:
    """The execution that ended last within each wait: the one that was waited for.

    What begins while the host waits had been launched before, or by a thread that is not looked at.
    """
    ends = sorted((run.stop, position) for position, run in enumerate(runs))
    for segment in segments:
        if segment.what.kind == a.SYNC:
            at = bisect_right(ends, (segment.stop, len(runs))) - 1
            if at >= 0 and ends[at][0] > segment.start:
                segment.target = ends[at][1]
    starts = [s.start for s in segments]
    for run in runs:
        at = bisect_right(starts, run.launched) - 1
        if at >= 0 and segments[at].target >= 0 and run.launched < segments[at].stop:
            run.launched = segments[at].start
