"""What a device profile says of its own NeuronCore: bounds of the time, what keeps them apart, engines."""

from __future__ import annotations

from typing import Any

from dash import html

from neuron_explorer.analysis.answer import Answer
from neuron_explorer.trace.device_profile import ENGINES
from neuron_explorer.ui.components.answer_table import answer_table, missing_notes
from neuron_explorer.ui.components.card import card, note

_BOUNDS = {
    "total": ("the profile", "Idle time included."),
    "perfect_pipeline": ("busiest engine", "All others hidden behind it."),
    "memory": ("DMA active", "The union of its transfers."),
    "memory_ideal": ("bytes at full bandwidth", "The same bytes at the bandwidth of DMA."),
    "memory_no_reloads": ("tensors moved once", "Inputs, outputs and weights, at the bandwidth of DMA."),
    "compute": ("tensor engine active", "The union of its busy intervals."),
    "compute_ideal": ("FLOP at peak rate", "Of the tensor engine."),
    "compute_useful": ("without transposes", "Its FLOP without transposes, at the peak rate."),
}
_ENGINES = {name: (name, name) for name in ENGINES}
_GAPS = {
    f"{above} to {below}": (f"{_BOUNDS[above][0]} → {_BOUNDS[below][0]}", "")
    for above in _BOUNDS for below in _BOUNDS
}  # fmt: skip


def device_bounds(answer: Answer, trace_id: str) -> list[Any]:
    """Cards of the report ``bounds``."""
    lower = answer_table(answer.table("bounds"), trace_id, (
        ("bound", "while this stays as it is"), ("ns", "at least"), ("share", "of the profile"),
    ), _BOUNDS)  # fmt: skip
    gaps = answer_table(answer.table("gaps"), trace_id, (
        ("gap", "from, to"), ("ns", "lost"), ("share", "of the profile"), ("loss", "to"), ("look_at", "look at"),
    ), _GAPS)  # fmt: skip
    engines = answer_table(answer.table("engines"), trace_id, (
        ("engine", "engine"), ("core", "core"), ("active_ns", "active"), ("share", "of the profile"),
        ("kernel_share", "of kernels"),
    ), _ENGINES)  # fmt: skip
    head = f"{answer.headline[:1].upper()}{answer.headline[1:]}."
    notes = [note(f"{text[:1].upper()}{text[1:]}.") for text in answer.notes]
    return [
        html.Div([
            card(["Bounds of this NeuronCore ", html.Span("by AWS's arithmetic", className="card-unit")], note(head),
                 lower, *notes, *missing_notes(answer.missing)),
            card("Engines", engines),
        ], className="columns"),
        card(["What keeps the bounds apart ", html.Span("no predicted savings", className="card-unit")], gaps),
    ]  # fmt: skip
