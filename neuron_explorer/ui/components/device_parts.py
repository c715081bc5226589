"""The parts of a step of a device with streams, in the shape of the bar of parts."""

from __future__ import annotations

from neuron_explorer.analysis.breakdown import PARTS, TimeBreakdown
from neuron_explorer.analysis.phases import Breakdown, Part


def device_parts(found: TimeBreakdown) -> Breakdown:
    """The breakdown over all of its ranks; the keys of its parts are those of ``analysis.breakdown``."""
    sums = [sum(window.ns[i] for window in found.windows) for i in range(len(PARTS))]
    parts = tuple(Part(name, label, "", ns, 0) for (name, label), ns in zip(PARTS.items(), sums, strict=True))
    return Breakdown(
        parts, sum(window.total_ns for window in found.windows), sum(window.step >= 0 for window in found.windows),
        found.selection, 0, 0, 0,
        "The device's streams come first; what the host does counts while none of them runs anything",
    )  # fmt: skip
