"""The porting report in words: the same sentences in the terminal, in Markdown and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.limits import Limit
from neuron_explorer.analysis.line_counts import LineCount
from neuron_explorer.analysis.op_status import Operator
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.readiness import Readiness
from neuron_explorer.analysis.roofline import Floor
from neuron_explorer.analysis.shape_variety import LineVariety, ShapeVariety
from neuron_explorer.analysis.waits import Wait

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))

WAITS = {"value": "reads a value", "to host": "copies to the host", "to device": "copies to the device"}


def size(number: float | None) -> str:
    """Bytes as people read them; ``–`` where they are not known."""
    if number is None:
        return "–"
    for unit, name in _UNITS:
        if number >= unit:
            return f"{q.significant(number / unit)} {name}"
    return f"{number:,.0f} B"


def arithmetic(flops: float) -> str:
    """FLOPs as people read them (``350 MFLOP``)."""
    for unit, name in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP")):
        if flops >= unit:
            return f"{q.significant(flops / unit)} {name}"
    return f"{flops:,.0f} FLOP"


def place(file: str, line: int) -> str:
    """``model.py:52``, or that there is no line."""
    return f"{plain(short_file(file), 60)}:{line}" if file else "no line"


def places(lines: Sequence[LineCount]) -> str:
    """The lines of an entry, with the calls of each where there are several."""
    if len(lines) == 1:
        return place(lines[0].file, lines[0].line)
    return ", ".join(f"{place(x.file, x.line)} ({q.count(x.calls)})" for x in lines)


def predicted(report: Readiness) -> str:
    """`` (predicted)`` where statuses were not seen."""
    return "" if report.seen else " (predicted)"


def status_sentence(report: Readiness) -> str:
    """How the operators fare, in one sentence."""
    counts = report.counts()
    total = sum(number for number, _ in counts.values())
    if not total:
        return "No operator was recorded."
    calls = sum(n for _, n in counts.values())
    falling, falling_calls = counts["fallback"]
    said = f"{q.plural(counts['native'][0], 'operator')} native"
    said += f", {falling} {'fall' if falling != 1 else 'falls'} back to the CPU" if falling else ", none falls back"
    if counts["unknown"][0]:
        said += f", {counts['unknown'][0]} unknown"
    share = f"; fallbacks are {q.share(falling_calls / calls)} of {q.count(calls)} calls" if falling else ""
    return f"{said}{predicted(report)}{share}."


def shape_sentence(shapes: ShapeVariety, seen: bool) -> str:
    """Artifacts and late ones, in one sentence."""
    if not shapes.artifacts:
        return "No shapes were recorded, or nothing ran natively."
    expect = "Eager mode needs" if seen else "Eager mode would need"
    said = f"{expect} {q.plural(shapes.artifacts, 'compiled artifact')}"
    if shapes.compiles_seen >= 0:
        said += f" (the trace holds {q.plural(shapes.compiles_seen, 'compilation')}, graphs included)"
    if shapes.late < 0:
        return said + "; without steps nothing can be said about when."
    if shapes.late == 0:
        return said + ", all of them in the first step."
    return said + f", {q.count(shapes.late)} of them after the first step: each stops the step to compile."


def late_text(row: LineVariety) -> str:
    """Late artifacts of a line."""
    if row.late < 0:
        return "–"
    return f"{q.count(row.late)}, up to step {row.last_step}" if row.late else "0"


def operator_calls(report: Readiness, operator: Operator) -> str:
    """Calls a steady step where there are steps, else of the run."""
    if report.steady_steps and operator.steady_calls:
        return q.per_step(operator.steady_calls / report.steady_steps)
    return "0" if report.steady_steps else q.count(operator.calls)


def wait_text(wait: Wait) -> str:
    """What makes the host wait."""
    said = WAITS.get(wait.what, wait.what)
    if wait.host_counter:
        return said + ", perhaps a counter that torch keeps on the CPU"
    return said


def scope(floor: Floor) -> str:
    """``Trainium2 device`` (one ``neuron`` device of it) or ``Trainium2 chip``."""
    return f"{floor.name} {floor.scope}"


def bound(floor: Floor) -> str:
    """What holds the floor: memory or arithmetic."""
    if not floor.by_op_ns:
        return "–"
    share = floor.memory_bound
    return f"memory {q.share(share)}" if share >= 0.5 else f"arithmetic {q.share(1 - share)}"


def limit_calls(limit: Limit) -> str:
    """Calls and the operators that make them."""
    return f"{q.plural(limit.calls, 'call')} of {', '.join(plain(o, 60) for o in limit.operators)}"
