"""What is counted: the groups of a baseline, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_PLACE: Final = ("path", "function", "line", "occurrence")


@dataclass(frozen=True)
class Group:
    """A group of counts. ``fields``: what a key is made of. ``per``: ``step`` or ``run``. ``how``: the option
    that records it. ``firm``: blocks whatever the environment (another torch calls other operators, but does not
    recompile more). ``capability``: of the metadata, "" where a trace always has it.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    per: str
    capability: str = ""
    how: str = ""
    firm: bool = False
    unit: str = "count"


GROUPS: Final[dict[str, Group]] = {
    g.name: g
    for g in (
        Group("launches", "Launches", ("what",), "step"),
        Group("operators", "Operators by dtypes and shapes", ("operator", "dtypes", "shapes"), "step", "shapes",
              "record with shapes=True"),
        Group("lines", "Launches by place", _PLACE, "step", "stacks", "record with stacks=True"),
        Group("recompiles", "Recompilations by place and cause", (*_PLACE, "cause", "value"), "run", "compile",
              'record with compile="light"', firm=True),
        Group("graph_breaks", "Graph breaks by place", (*_PLACE, "reason"), "run", "graph_breaks",
              'record with compile="light"', firm=True),
        Group("compilations", "Signatures compiled by function", ("path", "function"), "run", "compile",
              'record with compile="light"'),
        Group("fallbacks", "Operators that fell back to the CPU", ("operator",), "step", "fallback",
              "record on a neuron device, or an emulated one: record --emulate", firm=True),
        Group("copies", "Copies between devices by place", (*_PLACE, "direction"), "step", "sync",
              "record on an accelerator, or an emulated one: record --emulate"),
        Group("synchronisations", "Waits for the device by place", _PLACE, "step", "sync",
              "record on an accelerator, or an emulated one: record --emulate", firm=True),
        Group("collectives", "Collectives by kind and bytes", ("collective", "bytes"), "step"),
        Group("work", "Arithmetic and bytes", ("what",), "step", "shapes", "record with shapes=True"),
        Group("peak_memory", "Peak memory by device", ("device",), "run", "memory", "record with memory=True",
              unit="B"),
        Group("setup", "Before the first steady step", ("what",), "run"),
    )
}  # fmt: skip
"""Groups by name, in the order of a baseline."""
