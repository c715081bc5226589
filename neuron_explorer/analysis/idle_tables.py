"""``idle``: gaps of streams, or between operators, with their causes, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import (
    Answer,
    AnswerTable,
    Ask,
    Column,
    Missing,
    Question,
    TableKind,
    fill,
    unless_observed,
)
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.idle import CAUSES, MOST_GAPS, TINY_NS, Idle, IdleLane, idle

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_WHERE: Final = (
    Column("where", "text", "The stream, all streams of a device together, or between the operators of a thread."),
    Column("rank", "id", "Rank."),
)
_CAUSE: Final = Column("cause", "text", "; ".join(f"{key}: {text}" for key, text in CAUSES.items()) + ".")

LANES: Final = TableKind(
    "lanes", "Idle time",
    (*_WHERE, Column("idle_ns", "ns", "Time of the selection in which it did nothing."),
     Column("busy_ns", "ns", "Time in which it did something, merged."),
     Column("share", "share", "Idle time over both."),
     Column("gaps", "count", "Number of gaps."),
     Column("first_cause", "text", "The cause of most of the idle time.")),
    "idle_ns and busy_ns: the time of the selection",
)  # fmt: skip
CAUSE_TABLE: Final = TableKind(
    "causes", "Idle time by cause",
    (*_WHERE, _CAUSE, Column("ns", "ns", "Idle time that passed so: of each gap the part in which the host did that."),
     Column("share", "share", "Of the idle time."),
     Column("gaps", "count", "Gaps most of which passed so.")),
    "ns of a stream: its idle_ns",
)  # fmt: skip
LINES: Final = TableKind(
    "lines", "Idle time by line",
    (*_WHERE, Column("place", "place", "The line that waits or compiles; for other causes the line whose work ends "
                     "the gap."),
     _CAUSE, Column("ns", "ns", "Whole gaps of this line whose main cause this is."),
     Column("share", "share", "Of the idle time."), Column("gaps", "count", "Number of gaps.")),
    "ns of a stream: its idle_ns",
)  # fmt: skip
GAPS: Final = TableKind(
    "gaps", "Longest gaps",
    (*_WHERE, Column("start_ns", "ns", "Start, since the start of the trace."), Column("ns", "ns", "Its length."),
     Column("cause", "text", "What most of it was spent on; see the table `causes`."),
     Column("cause_ns", "ns", "How much of it."),
     Column("place", "place", "As in the table `lines`.")),
    "ns of a stream: its idle_ns without gaps under 1 µs",
)  # fmt: skip

_METHOD: Final = (
    "A stream is idle while none of its executions runs (intervals merged). Every moment of a gap has the first of "
    "these causes that applies: another stream of the device works, the next execution was launched before the gap "
    "began (what launched it had ended), the host compiles, waits for data, waits for the "
    "device, falls back, runs operators, collects garbage, runs Python between operators. Where the gap began while "
    "the host waited for the device, what it then needs to queue new work is `after_sync`; where no execution "
    "follows, `nothing`. Of a device with several streams the time in which none of them works comes first. On a "
    "trace without streams the gaps are those between the operators of the main thread: time in which it runs no "
    "operator, waits for data, waits for the device or compiles. There and for all streams together the causes are "
    "the parts of `breakdown` beside work, but for what was queued or follows a wait. Gaps under "
    f"{TINY_NS:,} ns are one row, `tiny`. Whether a collective waits for another rank cannot be told from one rank."
)


def idle_answer(trace: Trace, chosen_by: str | Filter = "auto", top: int = 50) -> Answer:
    """The report. ``chosen_by``: as for ``select``, which says what it raises; ``top``: rows of each table."""
    found = idle(trace, chosen_by)
    causes = [row for lane in found.lanes for row in _causes(lane)]
    lines = sorted((row for lane in found.lanes for row in _lines(lane)), key=lambda r: -r["ns"])
    gaps = sorted((row for lane in found.lanes for row in _gaps(lane)), key=lambda r: (-r["ns"], r["start_ns"]))
    chosen = found.selection
    return Answer(
        "idle",
        _headline(found),
        (
            fill(LANES, [_lane(lane) for lane in found.lanes], top, add=("idle_ns", "busy_ns", "gaps")),
            fill(CAUSE_TABLE, causes, max(top, len(CAUSES)), add=("ns", "gaps")),
            fill(LINES, lines, top, add=("ns", "gaps")),
            _all_gaps(found, fill(GAPS, gaps, top, add=("ns",))),
        ),
        f"{chosen.whole_text} {q.duration(chosen.whole_ns)}; {chosen.note}",
        _notes(found),
        _missing(trace, found),
    )


def _all_gaps(found: Idle, filled: AnswerTable) -> AnswerTable:
    """The gaps that were not kept one by one are in the rest."""
    count = sum(lane.count - lane.by_cause.get("tiny", (0, 0))[1] for lane in found.lanes)
    total = sum(lane.idle_ns - lane.by_cause.get("tiny", (0, 0))[0] for lane in found.lanes)
    shown = sum(ns for ns in filled.column("ns") if isinstance(ns, int))
    rest = {"ns": total - shown} if count > len(filled.rows) else {}
    return AnswerTable(filled.kind, filled.rows, count, rest)


def _lane(lane: IdleLane) -> dict[str, Any]:
    return {
        "where": lane.label, "rank": lane.rank, "idle_ns": lane.idle_ns, "busy_ns": lane.busy_ns,
        "share": _share(lane.idle_ns, lane.idle_ns + lane.busy_ns), "gaps": lane.count,
        "first_cause": _first(lane),
    }  # fmt: skip


def _first(lane: IdleLane) -> str:
    return max(lane.by_cause, key=lambda cause: lane.by_cause[cause][0], default="")


def _causes(lane: IdleLane) -> list[dict[str, Any]]:
    ordered = sorted(lane.by_cause.items(), key=lambda item: -item[1][0])
    return [
        {"where": lane.label, "rank": lane.rank, "cause": cause, "ns": ns, "share": _share(ns, lane.idle_ns),
         "gaps": gaps}
        for cause, (ns, gaps) in ordered
    ]  # fmt: skip


def _lines(lane: IdleLane) -> list[dict[str, Any]]:
    return [
        {"where": lane.label, "rank": lane.rank, "place": place, "cause": cause, "ns": ns,
         "share": _share(ns, lane.idle_ns), "gaps": gaps}
        for (place, cause), (ns, gaps) in lane.by_place.items()
    ]  # fmt: skip


def _gaps(lane: IdleLane) -> list[dict[str, Any]]:
    return [
        {"where": lane.label, "rank": lane.rank, "start_ns": gap.start, "ns": gap.ns, "cause": gap.cause,
         "cause_ns": gap.cause_ns, "place": gap.place}
        for gap in lane.gaps
    ]  # fmt: skip


def _share(ns: int, whole: int) -> float | None:
    return ns / whole if whole > 0 else None


def _headline(found: Idle) -> str:
    if not found.lanes:
        return "no stream and no thread with operators was recorded"
    lane = found.lanes[0]
    whole = lane.idle_ns + lane.busy_ns
    if whole <= 0:
        return "no time was recorded"
    share = q.share(lane.idle_ns / whole)
    what = f"{lane.label} idle {share}" if lane.kind != "host" else f"no operator runs for {share} of the time"
    first = _first(lane)
    if not first:
        return what
    named = [(ns, place) for (place, cause), (ns, _) in lane.by_place.items() if cause == first and place]
    at = f" at {max(named)[1]}" if named else ""
    return f"{what}: {q.duration(lane.by_cause[first][0])} {CAUSES[first]}{at}"


def _notes(found: Idle) -> tuple[str, ...]:
    notes = []
    if not found.by_device:
        notes.append("no device stream: gaps between the operators of the main thread, not of a device")
    if any(len(lane.gaps) >= MOST_GAPS for lane in found.lanes):
        notes.append(f"the longest {MOST_GAPS:,} gaps of a stream are listed; the sums hold all")
    return tuple(notes)


def _missing(trace: Trace, found: Idle) -> tuple[Missing, ...]:
    missing: list[Missing] = []
    if not found.by_device:
        missing += unless_observed(trace, "device_time", "gaps of device streams") or (
            Missing("gaps of device streams", "the trace holds no execution on a device"),
        )
    missing += unless_observed(trace, "stacks", "lines of gaps", "record with stacks=True")
    for key, what in (("compile", "compilations"), ("data_wait", "waits for data"), ("gc", "the garbage collector")):
        missing += unless_observed(trace, key, f"{what} as a cause")
    return tuple(missing)


def _answer(trace: Trace, ask: Ask) -> Answer:
    return idle_answer(trace, ask.period, ask.top)


QUESTIONS: Final = (
    Question("idle", "Why is the device idle, or the host between operators?", _METHOD,
             (LANES, CAUSE_TABLE, LINES, GAPS), _answer),
)  # fmt: skip
