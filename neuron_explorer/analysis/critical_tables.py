"""``critical-path``: what a step's length is the sum of, and what it would be without a line."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Column, Missing, Question, TableKind, fill, unless_observed
from neuron_explorer.analysis.critical_path import KINDS, Piece, critical_path, line_times, step_without
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.schedule import MOST_EVENTS, NEAR_NS, Schedule, schedule
from neuron_explorer.analysis.scope import Scope, scopes
from neuron_explorer.analysis.selection import Selection, select

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_LINES: Final = 12
"""Lines that the what-if is worked out for."""
_WORK: Final = 4_000_000
"""Segments and executions, over all lines of the what-if, that are gone through at most."""

_KIND: Final = Column("kind", "text", "; ".join(f"{key}: {text}" for key, text in KINDS.items()) + ".")
PATH: Final = TableKind(
    "path", "The critical path",
    (_KIND, Column("place", "place", "The line; of time between operators the line that follows."),
     Column("name", "text", "The operator or execution that takes most of it."),
     Column("ns", "ns", "Time of the path in pieces of this kind and line."),
     Column("share", "share", "Of the step."), Column("pieces", "count", "Number of pieces.")),
    "ns: the step",
)  # fmt: skip
WHAT_IF: Final = TableKind(
    "what_if", "If a line took no time",
    (Column("line", "text", "The line, or the operator or execution where no line is known."),
     Column("step_ns", "ns", "What the step would take."),
     Column("gain_ns", "ns", "How much less that is; never more than `line_ns`."),
     Column("gain_share", "share", "The same over the step."),
     Column("line_ns", "ns", "Time of the line in the step: on the host and on the streams, each in full."),
     Column("path_ns", "ns", "Time of it on the path.")),
)  # fmt: skip
PIECES: Final = TableKind(
    "pieces", "Longest pieces",
    (Column("start_ns", "ns", "Start, since the start of the trace."), Column("ns", "ns", "Length."),
     Column("kind", "text", "As in the table `path`."), Column("place", "place", "The line."),
     Column("name", "text", "The operator or execution.")),
    "ns: the step",
)  # fmt: skip

_METHOD: Final = (
    "The path is walked from the end of the step back to its begin. On the host it follows the thread that takes the "
    "steps, and the backward thread where the other one runs nothing meanwhile. Where the host waited for the device "
    "it goes on at the execution that ended last within the wait; from an execution to what it had to wait for last: "
    "the one before it on its stream, one of another stream, or its launch. Traces do not tell which stream waited "
    f"for which: an execution that was queued and begins within {NEAR_NS // 1000} µs of the end of one on another "
    "stream is taken to have waited for it. The pieces cover the step once, so they add up to it. The what-if works "
    "the schedule out again with all of the line's operators and executions at zero (the Python before its operators "
    "too) and everything else as long as it was: waits still wait, streams keep their order, and what lay between a "
    "launch and its execution stays. So it says what could be gained at most from that line alone, not what a "
    "rewrite gains, and gains of several lines do not add up. A wait for the device does not get shorter by making "
    "its own line free: what it waits for must."
)


def critical_answer(trace: Trace, chosen_by: str | Filter = "auto", top: int = 50, target: str = "") -> Answer:
    """The report. ``chosen_by``: as for ``select``; ``top``: rows of each table; ``target``: number of a step.

    Raises ValueError as ``select`` does, and for a target that is no step of the trace.
    """
    selection = select(trace, chosen_by)
    scope = scopes(trace, selection)[0]
    step, low, high, said = _chosen(trace, selection, scope, target)
    found = schedule(trace, scope, low, high, selection.time.is_execution)
    if found.too_many or high <= low or not found.segments:
        reason = (
            f"{q.count(found.too_many)} events: more than {MOST_EVENTS:,} are not looked at; record steps or choose one"
            if found.too_many else "no time was recorded"
        )  # fmt: skip
        return Answer("critical-path", reason, tuple(fill(kind, [], top) for kind in (PATH, WHAT_IF, PIECES)),
                      said, (), _missing(trace, scope, step))  # fmt: skip
    pieces = critical_path(found)
    rows = _merged(pieces, high - low)
    ideas = _what_if(found, pieces)
    ordered = sorted(pieces, key=lambda p: (p.start - p.stop, p.start))
    return Answer(
        "critical-path",
        _headline(rows, ideas, high - low),
        (
            fill(PATH, rows, top, add=("ns", "pieces")),
            fill(WHAT_IF, ideas, top),
            fill(PIECES, [_piece(p) for p in ordered], top, add=("ns",)),
        ),
        said,
        _notes(found, scope),
        _missing(trace, scope, step),
    )


def _chosen(trace: Trace, selection: Selection, scope: Scope, target: str) -> tuple[int, int, int, str]:
    """Number, edges and name of the step: the one asked for, the median one, or the run.

    Raises ValueError for a target that is no step of the trace.
    """
    if target:
        if not target.isascii() or not target.isdigit() or len(target) > 9:
            raise ValueError(f"the target is the number of a step, not {target!r}")
        scope = scopes(trace, select(trace, replace(selection.chosen, period=f"{target}-{target}")))[0]
    windows = list(zip(scope.steps, scope.low.tolist(), scope.high.tolist(), strict=True))
    if target:
        number, low, high = windows[0]
        return number, low, high, f"step {number} of {q.duration(high - low)}"
    middle = median(high - low for _, low, high in windows) if windows else 0
    number, low, high = min(windows, key=lambda w: (abs(w[2] - w[1] - middle), w[1]), default=(-1, 0, 0))
    if number < 0:
        return -1, low, high, f"the whole run of {q.duration(high - low)}"
    of = f"the median of {q.plural(len(windows), 'step')}" if len(windows) > 1 else "the only one of the selection"
    return number, low, high, f"step {number} of {q.duration(high - low)}, {of}; {selection.note}"


def _merged(pieces: list[Piece], whole: int) -> list[dict[str, Any]]:
    """Pieces by kind and line (by name where there is no line), most time first."""
    sums: dict[tuple[str, str], list[int]] = {}
    names: dict[tuple[str, str], dict[str, int]] = {}
    places: dict[tuple[str, str], str] = {}
    for piece in pieces:
        key = (piece.what.kind, piece.what.line)
        entry = sums.setdefault(key, [0, 0])
        entry[0] += piece.stop - piece.start
        entry[1] += 1
        each = names.setdefault(key, {})
        each[piece.what.name] = each.get(piece.what.name, 0) + piece.stop - piece.start
        places[key] = piece.what.place
    rows = [
        {"kind": key[0], "place": places[key], "name": max(names[key], key=lambda n: names[key][n]), "ns": ns,
         "share": ns / whole if whole else None, "pieces": count}
        for key, (ns, count) in sums.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda r: (-r["ns"], r["kind"], r["place"], r["name"]))


def _what_if(found: Schedule, pieces: list[Piece]) -> list[dict[str, Any]]:
    on_path: dict[str, int] = {}
    for piece in pieces:
        if piece.what.line:
            on_path[piece.what.line] = on_path.get(piece.what.line, 0) + piece.stop - piece.start
    whole, times = found.high - found.low, line_times(found)
    size = len(found.segments) + len(found.runs)
    number = max(1, min(MOST_LINES, _WORK // max(size, 1)))
    rows = []
    for line in sorted(on_path, key=lambda x: (-on_path[x], x))[:number]:
        without = step_without(found, {line})
        rows.append(
            {"line": line, "step_ns": without, "gain_ns": whole - without,
             "gain_share": (whole - without) / whole if whole else None, "line_ns": times.get(line, 0),
             "path_ns": on_path[line]}
        )  # fmt: skip
    return sorted(rows, key=lambda r: (-r["gain_ns"], -r["path_ns"], r["line"]))


def _piece(piece: Piece) -> dict[str, Any]:
    return {"start_ns": piece.start, "ns": piece.stop - piece.start, "kind": piece.what.kind,
            "place": piece.what.place, "name": piece.what.name}  # fmt: skip


def _headline(rows: list[dict[str, Any]], ideas: list[dict[str, Any]], whole: int) -> str:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["kind"]] = sums.get(row["kind"], 0) + row["ns"]
    first = sorted(sums.items(), key=lambda item: -item[1])[:3]
    said = ", ".join(f"{kind} {q.share(ns / whole)}" for kind, ns in first)
    if not ideas or ideas[0]["gain_ns"] <= 0:
        return f"the path is {said}"
    best = ideas[0]
    return f"the path is {said}; without {best['line']} the step would take {q.duration(best['step_ns'])}"


def _notes(found: Schedule, scope: Scope) -> tuple[str, ...]:
    notes = ["the what-if keeps every dependency and leaves everything else as long as it was: an upper bound"]
    if found.of_device:
        notes.append("no host is in it: each execution is taken to have waited for whichever ended last before it")
    elif scope.devices and not any(s.target >= 0 for s in found.segments):
        notes.append("the host never waited for the device in this step: the path stays on the host")
    behind = max((run.stop for run in found.runs), default=0) - found.high
    if behind > 0:
        notes.append(f"at the end of the step the device still had {q.duration(behind)} of an execution to do")
    if found.unlaunched:
        notes.append(f"{q.plural(found.unlaunched, 'execution')} without a known launch: taken as launched when begun")
    return tuple(notes)


def _missing(trace: Trace, scope: Scope, step: int) -> tuple[Missing, ...]:
    missing: list[Missing] = []
    if not scope.devices:
        missing += unless_observed(trace, "device_time", "executions on the device, and waits for them")
    if step < 0:
        missing += unless_observed(trace, "steps", "steps", "call prof.step() at the end of each step")
    missing += unless_observed(trace, "stacks", "source lines", "record with stacks=True")
    return tuple(missing)


def _answer(trace: Trace, ask: Ask) -> Answer:
    return critical_answer(trace, ask.period, ask.top, ask.target)


QUESTIONS: Final = (
    Question("critical-path", "What is the length of a step the sum of, and what would it be without a line?",
             _METHOD, (PATH, WHAT_IF, PIECES), _answer),
)  # fmt: skip
