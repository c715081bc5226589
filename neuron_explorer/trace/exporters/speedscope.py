"""speedscope's JSON: a profile for each thread and stream, weights are self times in ns.

Equal stacks are one sample, in the order in which they first occurred: flame graph, sandwich and left-heavy
views are those of the whole run, the "time order" view shows first occurrences.
Format: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import sink
from .stacks import Label, stacks

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "Speedscope"]


class Speedscope:
    """The exporter; see the module."""

    name: Final = "speedscope"
    title: Final = "a profile for speedscope"
    suffix: Final = ".speedscope.json"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        found = stacks(trace, window, progress)
        names = {entry["lane"]: entry["name"] for entry in trace.metadata["lanes"]}
        by_lane: dict[int, list[tuple[int, int]]] = {}
        for (lane, node), weight in found.weights.items():
            by_lane.setdefault(lane, []).append((node, weight))
        frames: dict[Label, int] = {}
        with sink.text(output) as file:
            file.write(b'{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[')
            for position, (lane, nodes) in enumerate(sorted(by_lane.items(), key=lambda i: -sum(w for _, w in i[1]))):
                name = names.get(lane, f"lane {lane}")
                head = {"type": "sampled", "name": name, "unit": "nanoseconds", "startValue": 0,
                        "endValue": sum(weight for _, weight in nodes)}  # fmt: skip
                file.write(("," if position else "").encode() + json.dumps(head)[:-1].encode("ascii"))
                file.write(b',"samples":[')
                for number, (node, _) in enumerate(nodes):
                    sample = [frames.setdefault(label, len(frames)) for label in found.path(node)]
                    file.write((("," if number else "") + json.dumps(sample)).encode("ascii"))
                file.write(f'],"weights":{json.dumps([weight for _, weight in nodes])}}}'.encode("ascii"))
            file.write(b'],"shared":{"frames":[')
            for number, label in enumerate(frames):
                file.write((("," if number else "") + json.dumps(_frame(label))).encode("ascii"))
            about = {"name": trace.path.name, "exporter": "neuron-explorer"}
            file.write(f"]}},{json.dumps(about)[1:]}\n".encode("ascii"))
        return output.stat().st_size


def _frame(label: Label) -> dict[str, Any]:
    name, place, line = label
    frame: dict[str, Any] = {"name": name or "?"}
    if place:
        frame["file"] = place
        if line > 0:
            frame["line"] = line
    return frame


EXPORTER: Final = Speedscope()
