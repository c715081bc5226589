"""Is this program ready for Trainium? The porting report, from one trace.

Operators, limits, shapes and waits are those of the whole run; the floor is that of a steady
step. Every duration is host time: the report never turns it into a device's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.calls import compiled_launches, load_calls, on_device
from neuron_explorer.analysis.facts import RunFacts, run_facts
from neuron_explorer.analysis.flops import moves_nothing
from neuron_explorer.analysis.limits import Limit, limits
from neuron_explorer.analysis.op_status import STATUSES, Coverage, Operator, coverage_of, operators
from neuron_explorer.analysis.roofline import ASSUMPTIONS, Floor, coverage_text, floors
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.shape_variety import ShapeVariety, shape_variety
from neuron_explorer.analysis.waits import Wait, waits
from neuron_explorer.analysis.work import Unmodelled, work_of
from neuron_explorer.neuron.hardware import CHIPS

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

EAGER_LAUNCH_US: Final = (55, 65)
"""Host time of one eager operator that a user measured on trn2.3xlarge, in µs."""

GRAPH_LAUNCH_US: Final = (95, 100)
"""The same of one launch of a compiled graph."""

LIST_NOTE: Final = (
    "The list of native operators is that of a public TorchNeuron snapshot (April 2026), older than today's releases: "
    "what it leaves out may be native by now."
)


@dataclass(frozen=True)
class FloorReport:
    """The floors and what they rest on. ``flops``: of a step; ``unmodelled``: what is not in them."""

    floors: tuple[Floor, ...]
    steps: int
    per: str
    flops: float
    coverage: float | None
    coverage_text: str
    unmodelled: tuple[Unmodelled, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Readiness:
    """The porting report.

    ``seen``: the fallbacks were seen on a ``neuron`` device; else they are predicted.
    ``basis``: that in words. ``launches_per_step``: operators that start work on the device in a steady
    step, outside compiled graphs; ``graphs_per_step``: launches of compiled graphs; None without
    steady steps. ``notes``: what the reader must know beside it.
    """

    facts: RunFacts
    seen: bool
    emulated: bool
    basis: str
    time: str
    operators: tuple[Operator, ...]
    limits: tuple[Limit, ...]
    shapes: ShapeVariety
    waits: tuple[Wait, ...]
    floor: FloorReport
    launches_per_step: float | None
    graphs_per_step: float | None
    steady_steps: int
    notes: tuple[str, ...]

    def by_status(self, status: str) -> tuple[Operator, ...]:
        """The operators of a status (see ``op_status.STATUSES``)."""
        return tuple(o for o in self.operators if o.status == status)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Operators and calls by status."""
        return {s: (len(self.by_status(s)), sum(o.calls for o in self.by_status(s))) for s in STATUSES}


def readiness(trace: Trace, chip: str | None = None) -> Readiness:
    """The report. ``chip``: a key of ``hardware.CHIPS``; None for all of them.

    Raises ValueError for a chip that is not known.
    """
    if chip is not None and chip not in CHIPS:
        raise ValueError(f"chip must be one of {', '.join(CHIPS)}, not {chip!r}")
    facts = run_facts(trace)
    whole, steady = select(trace, "all"), select(trace, "auto")
    calls = load_calls(trace, whole, ("start", "step", "steady"))
    known = coverage_of(trace.metadata)
    here = on_device(calls, trace.metadata)
    found, speaking, native = operators(trace, calls)
    graphs = compiled_launches(calls)
    eager = ~calls.covered(graphs)
    compiles = facts.by_kind.get("compile", 0) + facts.by_kind.get("recompile", 0)
    variety = shape_variety(calls, native & eager, compiles if known.seen else -1)
    work = work_of(calls, steady, trace.metadata, calls.steady if steady.steps else None)
    met = tuple(x for x in limits(calls, here) if chip is None or not x.chips or chip in x.chips)
    # Views and allocations reach the device's tables, not the device.
    starts = speaking & eager & calls.where([not moves_nothing(g.name) for g in calls.groups])
    launches = int((starts & calls.steady).sum()) / steady.steps if steady.steps else None
    graph_launches = int((graphs & calls.steady).sum()) / steady.steps if steady.steps else None
    return Readiness(
        facts=facts,
        seen=known.seen,
        emulated=facts.emulated,
        basis=_basis(facts, known.seen, trace.metadata),
        time=facts.time.text,
        operators=found,
        limits=met,
        shapes=variety,
        waits=waits(trace, calls, here, whole),
        floor=FloorReport(
            floors=floors(work, (chip,) if chip else tuple(CHIPS)),
            steps=work.steps,
            per="a steady step" if work.steps else "the whole run",
            flops=work.flops / max(work.steps, 1),
            coverage=work.coverage,
            coverage_text=coverage_text(work),
            unmodelled=work.unmodelled,
            assumptions=ASSUMPTIONS,
        ),
        launches_per_step=launches,
        graphs_per_step=graph_launches,
        steady_steps=steady.steps,
        notes=tuple(_notes(facts, known, calls.left_out, launches, graph_launches, steady)),
    )


def _basis(facts: RunFacts, seen: bool, metadata: Mapping[str, Any]) -> str:
    device = metadata.get("device")
    kind = str(device.get("type") or "unknown") if isinstance(device, Mapping) else "unknown"
    if seen and facts.emulated:
        return "Seen on the emulated neuron device: native, fallback and compiled as the emulator ran them."
    if seen:
        return "Seen on the neuron device, as far as it tells."
    if kind == "neuron":
        return "Recorded on a neuron device that did not tell about its fallbacks: predicted from the list."
    return (
        f"Predicted from a recording on {kind}: nothing here ran on a neuron device, emulated or real. "
        "Recorded with --emulate, the fallbacks and artifacts show themselves."
    )


def _notes(
    facts: RunFacts, known: Coverage, left_out: int, launches: float | None, graphs: float | None, steady: Selection
) -> list[str]:
    if known.native is None:
        notes = ["The package has no list of native operators here: statuses are unknown."]
    else:
        notes = [LIST_NOTE]
    if not known.seen:
        notes.append("Tensors that the program makes on the host before it moves them are taken for the device's.")
    if not steady.steps:
        notes.append("No steady steps: figures are of the whole run, and nothing can be said about late compilations.")
    if any(c.key == "shapes" and not c.observed for c in facts.capabilities):
        notes.append("Recorded without shapes: no FLOPs, no bytes and no shape variety. Record with shapes=True.")
    if launches or graphs:
        notes.append(_dispatch(launches or 0.0, graphs or 0.0))
    if left_out:
        notes.append(f"{left_out:,} calls of rare signatures were not looked at.")
    return notes


def _dispatch(launches: float, graphs: float) -> str:
    low, high = (
        (launches * eager + graphs * graph) / 1000
        for eager, graph in zip(EAGER_LAUNCH_US, GRAPH_LAUNCH_US, strict=True)
    )
    said = f"{launches:,.0f} eager operators a step start work on the device"
    each = f"{EAGER_LAUNCH_US[0]} to {EAGER_LAUNCH_US[1]} µs of host time each"
    if graphs:
        said += f", and {graphs:,.1f} compiled graphs"
        each += f" ({GRAPH_LAUNCH_US[0]} to {GRAPH_LAUNCH_US[1]} for a graph)"
    return f"{said}. A user measured {each} on trn2.3xlarge: {low:,.1f} to {high:,.1f} ms a step beside the floor."
