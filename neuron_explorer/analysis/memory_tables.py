"""The tables about memory, as every output shows them."""

from __future__ import annotations

from typing import Final

from neuron_explorer.analysis.answer import Column, TableKind
from neuron_explorer.analysis.memory_categories import CATEGORIES

_OWNER: Final = Column(
    "device", "text", "The device, with rank and process where there are several; empty for the only one."
)
_WHERE: Final = (
    Column("place", "place", "The line that allocated it; for backward, the line of its forward."),
    Column("function", "text", "Its function; says so where the block was allocated before the recording."),
)
_SUM: Final = (
    Column("bytes", "B", "Bytes allocated there and alive at that moment."),
    Column("share", "share", "Of all that is alive at that moment."),
    Column("blocks", "count", "Blocks alive."),
    Column("largest", "B", "The largest of them."),
)
_KIND: Final = (
    Column("category", "text", "What most of these bytes are for: " + ", ".join(CATEGORIES) + "."),
    Column("operator", "text", "The operator that allocated the largest block."),
)

DEVICES: Final = TableKind(
    "memory_devices", "Memory by device",
    (Column("device", "text", "The device, with rank and process where there are several."),
     Column("peak", "B", "Most bytes allocated at once."),
     Column("peak_at_ns", "ns", "When that was first so, since the start of the trace."),
     Column("peak_step", "id", "The step it lies in; none outside steps."),
     Column("at_start", "B", "Bytes known to be allocated when the part of the run begins."),
     Column("at_end", "B", "Bytes allocated when it ends."),
     Column("allocations", "count", "Allocations in it."),
     Column("allocated", "B", "Their bytes, those of released blocks included."),
     Column("reserved", "B", "Most bytes that the allocator kept from the device; none where it does not tell."),
     Column("unused", "share", "Part of the reserved bytes in no block, when the allocator last said so before the "
            "peak.")),
)  # fmt: skip
PEAK_CATEGORIES: Final = TableKind(
    "memory_categories", "What it is for",
    (_OWNER, Column("category", "text", "One of " + ", ".join(CATEGORIES) + "."), *_SUM,
     Column("exact", "B", "Bytes whose category was seen, not inferred.")),
    "bytes: all that is alive at the moment, per device",
)  # fmt: skip
HOLDERS: Final = TableKind(
    "memory_lines", "Who holds it, by line", (_OWNER, *_WHERE, *_SUM, *_KIND),
    "bytes: all that is alive at the moment, per device",
)  # fmt: skip
HOLDING_MODULES: Final = TableKind(
    "memory_modules", "Who holds it, by module",
    (_OWNER, Column("module", "text", "Path of the module, `*` for layers that differ only in a number; empty outside "
                     "modules."), *_SUM, *_KIND),
    "bytes: all that is alive at the moment, per device",
)  # fmt: skip
TIMELINE: Final = TableKind(
    "memory_timeline", "Allocated bytes over time",
    (_OWNER, Column("at_ns", "ns", "Since the start of the trace."),
     Column("total", "B", "All bytes allocated: the most among the moments that the row stands for."),
     *(Column(name.replace(" ", "_"), "B", f"Of them: {name}.") for name in CATEGORIES)),
)  # fmt: skip
ALLOCATIONS: Final = TableKind(
    "memory_allocations", "Largest allocations by line",
    (_OWNER, *_WHERE, Column("allocated", "B", "Bytes of all its allocations in this part of the run."),
     Column("allocations", "count", "How many."),
     Column("per_step", "B", "Bytes a step; none without steps."),
     Column("largest", "B", "The largest of them."),
     Column("life_ns", "ns", "Median time until the release; none where most were not released."),
     Column("released_by", "place", "The line at which most of their bytes were released."),
     *_KIND, Column("module", "text", "Module of the largest."),
     Column("phase", "text", "Phase of the largest.")),
    "allocated: the bytes allocated in this part of the run, per device",
)  # fmt: skip
LEAKS: Final = TableKind(
    "memory_leaks", "Leaks over steps",
    (_OWNER, *_WHERE, Column("bytes", "B", "Bytes left behind that are alive after the last step."),
     Column("blocks", "count", "Blocks left behind."),
     Column("per_step", "B", "Growth a step."),
     Column("steps", "count", "Steps that left something behind."),
     Column("first_step", "id", "The first of them."),
     Column("last_step", "id", "The last of them."),
     *_KIND, Column("module", "text", "Module of the largest block.")),
)  # fmt: skip
