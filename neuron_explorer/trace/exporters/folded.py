"""Folded stacks: one line for each stack, frames separated by semicolons, and its self time in ns.

What Brendan Gregg's flamegraph.pl, inferno and speedscope read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import sink
from .stacks import Label, stacks

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "Folded"]

_SPACE: Final = {code: " " for code in (*range(32), 127, 0x85, 0x2028, 0x2029)} | {ord(";"): ","}


class Folded:
    """The exporter; see the module."""

    name: Final = "folded"
    title: Final = "folded stacks for flame graphs"
    suffix: Final = ".folded.txt"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        found = stacks(trace, window, progress)
        lanes = {entry["lane"]: entry["name"] for entry in trace.metadata["lanes"]}
        shown: dict[Label, str] = {}
        with sink.text(output) as file:
            for (lane, node), weight in found.weights.items():
                parts = [_clean(lanes.get(lane, f"lane {lane}"))]
                for label in found.path(node):
                    text = shown.get(label)
                    if text is None:
                        name, place, line = label
                        text = shown[label] = _clean(f"{name} ({place}:{line})" if place else name)
                    parts.append(text)
                file.write(f"{';'.join(parts)} {weight}\n".encode("utf-8", "backslashreplace"))
        return output.stat().st_size


def _clean(text: str) -> str:
    """Without what ends a frame or a line."""
    return text.translate(_SPACE).strip() or "?"


EXPORTER: Final = Folded()
