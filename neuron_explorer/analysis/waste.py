"""What runs twice or for nothing: copies, casts, repeated operators, reads of single values, optimizers.

Each rule finds events that a program could do without, with their line and their time on the
host. The time is what the events took, so it bounds what their removal gains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import (
    Answer,
    Ask,
    Column,
    Missing,
    Question,
    TableKind,
    fill,
    place,
    unless_observed,
)
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.selection import Selection, select
from neuron_explorer.analysis.waste_copies import copies
from neuron_explorer.analysis.waste_host import host_reads, optimizers, zero_fills
from neuron_explorer.analysis.waste_repeats import repeats
from neuron_explorer.analysis.wasted import Wasted

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_RULES: Final[tuple[Callable[[Trace, Selection], list[Wasted]], ...]] = (
    repeats, copies, host_reads, optimizers, zero_fills,
)  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    text: str
    action: str


KINDS: Final = {
    "repeated_copy": _Kind(
        "the same contents are copied or cast again within a step",
        "do it once and keep the result for the rest of the step",
    ),
    "recomputed": _Kind(
        "the same operator runs again on the same inputs within a step",
        "compute it once and use the result again",
    ),
    "ping_pong": _Kind(
        "a tensor goes to the host and comes back within a step",
        "keep it on the device, or do the work on the host before it is moved",
    ),
    "dtype_round_trip": _Kind(
        "a tensor is cast and the result is cast back",
        "keep one of the dtypes, or cast the other operand",
    ),
    "layout_copy": _Kind(
        "contiguous() or reshape() copies because of the tensor's strides",
        "order the dimensions so that no transpose comes before it, or use an operator that takes strides",
    ),
    "sync_in_loop": _Kind(
        "a line reads values back several times a step; an accelerator drains its queue each time",
        "collect the values on the device and read them once, outside the loop",
    ),
    "item_in_step": _Kind(
        "a value is read back in each step; an accelerator drains its queue for it",
        "read it every n steps, or keep it on the device until it is printed",
    ),
    "zero_fill": _Kind(
        "gradients are filled with zeros, and then added to",
        "call zero_grad(set_to_none=True), torch's default",
    ),
    "no_foreach": _Kind(
        "the optimizer updates each parameter by operators of its own",
        "construct it with foreach=True or fused=True, or compile its step",
    ),
}
"""Kinds of waste: what it is, and what to do."""

WASTE: Final = TableKind(
    "waste", "What could go",
    (Column("kind", "text", "; ".join(f"`{k}`: {v.text}" for k, v in KINDS.items()) + "."),
     Column("place", "place", "The line."),
     Column("time_ns", "ns", "Host time of the events that could go, over the selection: no gain is larger."),
     Column("events", "count", "How many they are."),
     Column("per_step", "count", "The same in a step, a mean; none without steps."),
     Column("name", "text", "Operator or range."),
     Column("certainty", "text", "`exact`: it follows from the recording; `likely`: the trace allows another reading, "
            "which `detail` names."),
     Column("bytes", "B", "Bytes that they moved, where the trace tells."),
     Column("detail", "text", "What was seen."),
     Column("action", "text", "What to do."),
     Column("function", "text", "The line's function."),
     Column("example", "id", "Event id of one of them.")),
)  # fmt: skip


@dataclass(frozen=True)
class Waste:
    """The findings, by time; ``selection``: the part of the run. ``tensors``: whether it is known which tensors
    operators got.
    """

    found: tuple[Wasted, ...]
    selection: Selection
    tensors: bool


def waste(trace: Trace, period: str | Filter = "auto", *, selection: Selection | None = None) -> Waste:
    """Everything that the rules find."""
    sel = selection or select(trace, period)
    found = [each for rule in _RULES for each in rule(trace, sel)]
    found.sort(key=lambda w: (-w.time_ns, w.kind, w.file, w.line, w.name))
    return Waste(tuple(found), sel, not unless_observed(trace, "tensors", ""))


def _record(w: Wasted) -> dict[str, Any]:
    return {**vars(w), "place": place(w.file, w.line), "action": KINDS[w.kind].action}


def _answer(trace: Trace, ask: Ask) -> Answer:
    result = waste(trace, ask.period)
    found = result.found
    head = "nothing that runs twice or for nothing was found"
    if found:
        head = f"{q.plural(len(found), 'finding')}; the largest: {KINDS[found[0].kind].text}, {_where(found[0])}"
    missing = [
        *unless_observed(trace, "shapes", "casts and copies of layout", "record with shapes=True"),
        *unless_observed(trace, "tensors", "whether two calls had the same tensors: repeated copies, recomputed "
                         "operators and exact round trips", "record with tensors=True"),
        Missing("results that nothing uses", "a recording holds which storages operators get, not in which they leave "
                "their results: what nobody reads is never seen"),
    ]  # fmt: skip
    notes = ("Findings overlap where two rules see the same events: their times do not add up.",)
    return Answer(
        "waste", head, (fill(WASTE, [_record(w) for w in found], ask.top),),
        f"{result.selection.note}; {result.selection.time.text}", notes, tuple(missing),
    )  # fmt: skip


def _where(w: Wasted) -> str:
    return f"{place(w.file, w.line) or w.name}, {q.duration(w.time_ns)}"


_METHOD: Final = (
    "Which tensors an operator got is known where the recording was made with `tensors=True`: storage, offset in it "
    "and version. A storage may be freed and its address used again; a version above zero rules that out for what "
    "torch writes in place, such as parameters (`exact`), else the finding is `likely`. Operators that draw random "
    "numbers or write in place never count as repeated. Without tensors a round trip is `likely`: as many casts or "
    "copies of one shape in one direction as in the other within a step."
)

QUESTIONS: Final = (Question("waste", "What runs twice or for nothing?", _METHOD, (WASTE,), _answer),)
