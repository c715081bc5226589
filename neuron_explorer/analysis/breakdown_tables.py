"""``breakdown``: where the time of each step goes, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Column, Missing, Question, TableKind, fill, unless_observed
from neuron_explorer.analysis.breakdown import LONG_GAP_NS, PARTS, TimeBreakdown, Window, breakdown, lane_times

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_MEANINGS: Final = {
    "compute": "A stream runs a kernel that is no collective and no copy; without streams: an operator runs on the "
    "main thread, or a backward node on a thread of its own while the main thread runs nothing.",
    "collectives_overlapped": "A collective and such a kernel run at once.",
    "collectives_exposed": "A collective runs and no such kernel does.",
    "copies": "Only copies or fills run on the streams; without streams: the host copies between devices.",
    "compile": "The main thread compiles and runs no operator inside the compilation.",
    "fallback": "An operator runs on the CPU because the device has none.",
    "data": "The main thread waits for the next batch.",
    "sync": "The host waits for the device; with streams, while they do nothing.",
    "submit": "With streams or host-submit time only: the host runs operators, that is it launches work, and the "
    "streams do nothing.",
    "gc": "Python's garbage collector runs and no operator does.",
    "python": f"None of these, and the next operator is less than {LONG_GAP_NS // 1_000_000} ms away: Python between "
    "operators.",
    "unexplained": f"None of these for longer than {LONG_GAP_NS // 1_000_000} ms, or no host was recorded: Python, "
    "reading and writing files or sleep; the recording does not tell.",
}
_PART_COLUMNS: Final = tuple(Column(f"{name}_ns", "ns", _MEANINGS[name]) for name in PARTS)

BREAKDOWN: Final = TableKind(
    "parts", "Parts of a step",
    (Column("rank", "id", "Rank."),
     Column("part", "text", "Name of the part, as the columns of the table `steps` without `_ns`."),
     Column("label", "text", "What it is called."),
     Column("ns", "ns", "Sum over the steps of the selection."),
     Column("per_step_ns", "ns", "Mean over its steps; none where the whole run is broken down."),
     Column("share", "share", "Part of the time of its rank's steps.")),
    "ns of a rank: the time of its steps (or of the run)",
)  # fmt: skip
BY_STEP: Final = TableKind(
    "steps", "Each step",
    (Column("rank", "id", "Rank."), Column("step", "id", "Number of the step; none for the whole run."),
     Column("period", "text", "warmup, compile or steady."),
     Column("total_ns", "ns", "Duration of the step."), *_PART_COLUMNS,
     Column("start_ns", "ns", "Start of the step, since the start of the trace.")),
    "the columns of parts: total_ns",
)  # fmt: skip
BY_LANE: Final = TableKind(
    "lanes", "Threads and streams",
    (Column("lane", "text", "Name of the thread or stream."),
     Column("kind", "text", "thread, device, compile or gc."),
     Column("busy_ns", "ns", "Time of the steps in which it did something: its events merged, so that those that "
            "overlap count once."),
     Column("share", "share", "Busy time over the time of its rank's steps."),
     Column("self_ns", "ns", "Sum over events that begin in these steps, without the events inside them."),
     Column("total_ns", "ns", "The same with them."),
     Column("events", "count", "Number of these events."),
     Column("rank", "id", "Rank."), Column("process", "id", "Process."),
     Column("thread", "id", "Number of the thread in its process; -1 for none."),
     Column("device", "text", "Device of a stream."),
     Column("stream", "id", "Number of the stream; -1 for none.")),
)  # fmt: skip

_METHOD: Final = (
    "At every moment of a step the first of these that goes on decides the part. With device streams: a collective "
    "beside compute, compute, a collective, a copy; then, while the streams do nothing, what the main thread does: "
    "compile, wait for data, wait for the device, fallback, operators. Without streams the list begins with the main "
    "thread, whose operators are the compute (on an asynchronous device without streams: `submit`, and compute was "
    "not observed). Intervals are merged first, so nothing counts twice, and are cut at the edges of the step, so the "
    "parts add up to it exactly. Device compute as a whole is `compute` plus `collectives_overlapped`. The time "
    "between operators is `python` plus `unexplained`; the overview calls both together Python between ops, and "
    "splits `compute` on the host by phase, each operator's phase by its innermost operator."
)


def _answer(trace: Trace, ask: Ask) -> Answer:
    found = breakdown(trace, ask.period)
    records = [record for scope in found.scopes for record in _parts(found, scope.rank)]
    windows = [_window(w) for w in found.windows]
    lanes = [
        {"lane": t.lane.label, "kind": t.lane.kind, "busy_ns": t.busy_ns, "self_ns": t.self_ns,
         "total_ns": t.total_ns, "events": t.events, "rank": t.lane.rank, "process": t.lane.process,
         "thread": t.lane.thread, "device": t.lane.device, "stream": t.lane.stream,
         "share": _share(t.busy_ns, next((s.whole_ns for s in found.scopes if s.rank == t.lane.rank), 0))}
        for t in lane_times(trace, found)
    ]  # fmt: skip
    chosen = found.selection
    return Answer(
        "breakdown",
        _headline(found),
        (
            fill(BREAKDOWN, records, max(ask.top, len(PARTS)), add=("ns",)),
            fill(BY_STEP, windows, ask.top, add=("total_ns", *(f"{name}_ns" for name in PARTS))),
            fill(BY_LANE, lanes, ask.top, add=("busy_ns", "self_ns", "total_ns", "events")),
        ),
        f"{chosen.whole_text} {q.duration(chosen.whole_ns)}; {chosen.note}",
        _notes(found),
        _missing(trace, found),
    )


def _parts(found: TimeBreakdown, rank: int) -> list[dict[str, object]]:
    whole = sum(w.total_ns for w in found.of(rank))
    steps = sum(w.step >= 0 for w in found.of(rank))
    return [
        {"rank": rank, "part": name, "label": part_label(found, name), "ns": ns,
         "per_step_ns": ns / steps if steps else None, "share": _share(ns, whole)}
        for name, ns in found.sums(rank).items()
        if ns or name == "unexplained"
    ]  # fmt: skip


def part_label(found: TimeBreakdown, name: str) -> str:
    """What a part is called on this trace."""
    return "operators on the host" if name == "compute" and not found.by_device else PARTS[name]


def _window(window: Window) -> dict[str, object]:
    return {
        "rank": window.rank, "step": window.step if window.step >= 0 else None, "period": window.period,
        "total_ns": window.total_ns, "start_ns": window.start,
        **{f"{name}_ns": ns for name, ns in zip(PARTS, window.ns, strict=True)},
    }  # fmt: skip


def _share(ns: int, whole: int) -> float | None:
    return ns / whole if whole > 0 else None


def _headline(found: TimeBreakdown) -> str:
    scope = found.scopes[0]
    whole, steps = scope.whole_ns, sum(step >= 0 for step in scope.steps)
    if whole <= 0:
        return "no time was recorded"
    largest = sorted(found.sums(scope.rank).items(), key=lambda item: -item[1])[:3]
    said = ", ".join(f"{part_label(found, name)} {q.share(ns / whole)}" for name, ns in largest if ns)
    what = f"a step of {q.duration(whole / steps)}" if steps else f"a run of {q.duration(whole)}"
    return f"{what}: {said}"


def _notes(found: TimeBreakdown) -> tuple[str, ...]:
    notes = []
    if found.by_device:
        notes.append("the device's streams decide first; what the host does counts while they do nothing")
    elif not found.executes:
        notes.append(f"no device stream was recorded: {found.selection.time.text}")
    elif found.selection.time.text:
        notes.append(found.selection.time.text)
    if any(scope.main is None for scope in found.scopes):
        notes.append("no thread with operators was recorded: time outside the streams is unexplained")
    return tuple(notes)


def _missing(trace: Trace, found: TimeBreakdown) -> tuple[Missing, ...]:
    missing = []
    if not found.by_device:
        missing += unless_observed(trace, "device_time", "device streams: compute, overlap, copies on the device")
        if not found.executes and not missing:
            missing.append(Missing("device streams", "the trace holds no execution on a device"))
    if not any(step >= 0 for scope in found.scopes for step in scope.steps) and found.selection.period != "all":
        missing += unless_observed(trace, "steps", "steps", "call prof.step() at the end of each step")
    ranks = trace.metadata.get("world_size")
    if not found.by_device and isinstance(ranks, int) and ranks > 1:
        missing += unless_observed(trace, "collectives", "collectives: their time is that of operators")
    for key, what in (("compile", "compilations"), ("data_wait", "waits for data"), ("gc", "the garbage collector")):
        missing += unless_observed(trace, key, f"{what}: a part of theirs is in the others")
    return tuple(missing)


QUESTIONS: Final = (
    Question("breakdown", "Where does the time of a step go?", _METHOD, (BREAKDOWN, BY_STEP, BY_LANE), _answer),
)
