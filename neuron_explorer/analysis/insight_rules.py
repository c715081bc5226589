"""Every rule of the insights with its threshold: one table."""

from __future__ import annotations

from typing import Final

from neuron_explorer.analysis.insight import Rule

_WASTE: Final = 0.01
"""Share of a step from which events that could go are worth a sentence."""
_WASTED: Final = {
    "repeated_copy": ("copies and casts of contents that were copied before in the step", (0.0, 1.0)),
    "recomputed": ("operators that ran before on the same inputs in the step", (0.0, 1.0)),
    "ping_pong": ("copies to the host and back", (0.0, 1.0)),
    "dtype_round_trip": ("casts that are cast back", (0.0, 1.0)),
    "layout_copy": ("copies that contiguous() and reshape() make", (0.0, 1.0)),
    "sync_in_loop": ("values read back several times a step", (0.0, 1.0)),
    "item_in_step": ("values read back once a step", (0.0, 1.0)),
    "zero_fill": ("filling gradients with zeros", (0.0, 1.0)),
    "no_foreach": ("an optimizer's operators, one parameter at a time", (0.0, 1.0)),
}

_SUMMARY: Final = "AWS Neuron Explorer, summary"

_ALL: Final = (
    Rule("dropped", "events dropped, of all", 1e-9, "share", "problem"),
    Rule("unfinished", "recordings cut off", 1, "count", "problem"),
    Rule("quarantined", "events with impossible times", 1, "count", "problem"),
    Rule("alert", "alerts of high or medium severity about compilation", 1, "count", "cost", (0.0, 1.0)),
    Rule("data_wait", "waiting for the DataLoader, of a step", 0.05, "share", "cost", (0.0, 1.0)),
    Rule("sync", "waiting for the device, of a step", 0.10, "share", "cost", (0.0, 1.0)),
    Rule("gc", "Python's garbage collector, of a step", 0.03, "share", "cost", (0.0, 1.0)),
    Rule("python", "Python between operators while the device does nothing, of a step", 0.30, "share", "cost",
         (0.0, 1.0)),
    Rule("device_idle", "the device does nothing, of a step", 0.20, "share", "cost", (0.0, 1.0)),
    Rule("line", "the line that takes most, of a step", 0.20, "share", "cost", (0.0, 1.0)),
    Rule("launches", "a line with 200 or more launches a step of under 20 µs each, of a step", 0.10, "share", "cost",
         (0.0, 0.5)),
    Rule("slow_steps", "the slowest steady step over the median", 1.5, "ratio", "cost", (0.0, 1.0)),
    Rule("warm_up", "warm-up and compile steps beyond the median, of the run", 0.25, "share", "note"),
    Rule("attribution", "operator time without a source line", 0.05, "share", "note"),
    *(Rule(key, f"{measures}, of a step", _WASTE, "share", "cost", gain, deep=True)
      for key, (measures, gain) in _WASTED.items()),
    Rule("leak", "lines that leave more memory behind with every step", 1, "count", "cost", deep=True),
    Rule("launch_bound", "operator time on lines that launching bounds, of all", 0.50, "share", "cost", deep=True),
    Rule("float32_matrix", "floor of matrix arithmetic in float32, of the floor of a step", 0.25, "share", "cost",
         deep=True),
    Rule("unmodelled", "operator time without a model of its work", 0.20, "share", "note", deep=True),
    Rule("mfu", "share of the peak rate that the device reaches while it computes", 0.50, "share", "cost",
         source="AWS Neuron Explorer, summary: model FLOPs under 50 % of active ones", below=True, deep=True),
    Rule("device_useful", "model FLOP, of those that the tensor engine could do while it is active", 0.50, "share",
         "cost", (0.0, 1.0), f"{_SUMMARY}: model FLOPs under 50 % of active ones", below=True, deep=True),
    Rule("device_kernels", "instructions of hand-written kernels, of the engine that has least", 0.50, "share", "note",
         source=f"{_SUMMARY}: NKI coverage under 50 %", below=True, deep=True),
    Rule("device_throttled", "time that the core was throttled", 1, "ns", "cost", (0.0, 1.0),
         f"{_SUMMARY}: any active throttling", deep=True),
    Rule("device_transposes", "FLOP of transposes, of all of the tensor engine", 0.10, "share", "cost", (0.0, 1.0),
         f"{_SUMMARY}: transposes over 10 % of hardware FLOPs", deep=True),
    Rule("device_collectives", "the longest collective over the median of its kind and size", 2.0, "ratio", "cost",
         (0.0, 1.0), f"{_SUMMARY}: outliers of collectives; the factor is this tool's own", deep=True),
    Rule("device_spills", "bytes reloaded after a spill, of all read from HBM", 0.25, "share", "cost", (0.0, 1.0),
         f"{_SUMMARY}: spill reload over 25 % of HBM reads", deep=True),
    Rule("device_small_dma", "bytes that a DMA transfer moves on average", 32_768, "B", "cost", (0.0, 1.0),
         "AWS Neuron Explorer, glossary: average_dma_size of at least 32,768 B", below=True, deep=True),
)  # fmt: skip

RULES: Final = {rule.key: rule for rule in _ALL}
"""By key, in the order of the documentation."""

MANY_LAUNCHES: Final = 200
SMALL_LAUNCH_NS: Final = 20_000
MOST_ALERTS: Final = 2
ALERT_WEIGHT: Final = 0.3
"""A high alert comes before lines that take less: its cost grows with every further shape or value."""
