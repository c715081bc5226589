"""Every column of a trace, once: its name, Arrow type, unit and meaning.

A trace is one Parquet file with one table, a row per event. ``docs/schema.md`` is
generated from this module (``python -m neuron_explorer.trace.schema > docs/schema.md``) and
a test keeps the two equal.

Conventions: times are int64 nanoseconds since the start of the trace; integer columns
are never null, ``-1`` means "none" or "not observed"; text columns are null where there
is nothing to say. Event ids and frame ids are separate spaces.

``top_level`` follows from other rows. Whoever writes rows leaves it out and ``TraceWriter`` works it
out; where a file has no such column, the readers do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION: Final = 1
"""Raised when a column changes its meaning. A reader refuses a newer version."""

METADATA_KEY: Final = b"neuron_explorer"
"""Key of the file's key-value metadata under which the JSON document is stored."""

NONE: Final = -1
"""The value of an integer column that has nothing to say."""


@dataclass(frozen=True)
class Column:
    """One column. ``type`` is an Arrow type name; ``text`` is a dictionary-encoded string."""

    name: str
    type: str
    unit: str
    meaning: str
    encoding: str = ""


COLUMNS: Final[tuple[Column, ...]] = (
    Column("kind", "text", "", "What the row is; see the table of kinds."),
    Column("name", "text", "", "Operator with overload (`aten::add.Tensor`), range, step or function name."),
    Column("start", "int64", "ns", "Start, since the start of the trace. -1 for frame and source rows.", "delta"),
    Column("duration", "int64", "ns", "End minus start on the host clock (device rows: the device's); -1: no end."),
    Column("self", "int64", "ns", "Duration minus the part spent in child events; -1 when unknown."),
    Column("id", "int64", "", "Event id, unique in the file; for frame rows the frame id.", "delta"),
    Column("parent", "int64", "", "Id of the enclosing event (frame rows: of the calling frame); -1 at the top."),
    Column("depth", "int16", "", "Number of enclosing events on the same lane."),
    Column("lane", "int32", "", "Index into the lane table of the metadata."),
    Column("rank", "int32", "", "Distributed rank, 0 when there is one process."),
    Column("process", "int64", "", "Operating system process id."),
    Column("thread", "int32", "", "Thread sequence number within its process (never a reused OS id)."),
    Column("device", "text", "", "Device of the event's first tensor, as torch writes it (`cpu`, `neuron:0`)."),
    Column("stream", "int32", "", "Stream on the device; -1 on the host."),
    Column("stack", "int64", "", "Frame id of the innermost Python frame when the event began; -1 when none."),
    Column("file", "text", "", "File of the user frame, relative to the project where possible."),
    Column(
        "line", "int32", "", "Line of the user frame's current instruction, as a traceback would say; -1 when none."
    ),
    Column("function", "text", "", "Qualified name of the user frame's function."),
    Column(
        "attribution", "text", "", "How file and line were found, or why they were not; see the table of attributions."
    ),
    Column(
        "outermost_on_line", "bool", "", "No enclosing event has the same file and line: sum durations over these only."
    ),
    Column(
        "top_level", "bool", "", "A launch: an operator (no range, no backward node) that no operator called, but "
        "Python, a backward node or a C++ thread."
    ),
    Column("module", "text", "", "Dotted path of the innermost `nn.Module` (`model.layers.3.mlp`)."),
    Column("phase", "text", "", "forward, backward, recompute, optimizer or other."),
    Column("period", "text", "", "warmup, compile or steady; null outside any step."),
    Column("step", "int32", "", "Number of the step that holds the event's start; -1 outside any step."),
    Column("sequence", "int64", "", "Autograd sequence number; -1 when none."),
    Column("shapes", "text", "", "JSON list, one entry per operator argument: sizes, list of sizes, or null."),
    Column("strides", "text", "", "As `shapes`, with strides in elements."),
    Column("dtypes", "text", "", "As `shapes`, with dtype names without `torch.`."),
    Column("arguments", "text", "", "As `shapes`, with the bounded value of each non-tensor argument."),
    Column("bytes_read", "int64", "B", "Bytes read; -1 when not modelled."),
    Column("bytes_written", "int64", "B", "Bytes written; -1 when not modelled."),
    Column("flops", "int64", "FLOP", "Floating point operations; -1 when not modelled."),
    Column(
        "correlation",
        "int64",
        "",
        "Backward nodes: event id of the forward op. Device and link rows: event id of the launching op. "
        "Launches: event id of the compile row whose code runs. Waits for a collective, and its flight: event id of "
        "the row that submitted it. Memory rows: number of the block in its process. "
        "Else -1.",
    ),
    Column(
        "external_id", "int64", "", "Imported traces: the id by which the source links events (`External id`); "
        "-1 none.", "delta",
    ),
    Column(
        "correlation_id", "int64", "", "Imported traces: the source's number of a launch and of what it started; "
        "-1 none.",
    ),
    Column(
        "source_index", "int64", "", "Imported traces: the source's number of the event (`Ev Idx`); -1 none.", "delta"
    ),
    Column("compile_id", "text", "", "Dynamo compile id (`0/1`) of a compilation, its parts and launches."),
    Column("detail", "text", "", "JSON object with what only one kind has."),
    Column("text", "text", "", "Source text (source rows only)."),
)

KINDS: Final[dict[str, str]] = {
    "op": "A dispatched operator. Of one that the program registered through `torch.library`, `detail` holds the "
    "`kernel`: `function`, `file` and `line` of its definition (`file` and `line` of the row: of the call).",
    "autograd": "A backward node run by the autograd engine.",
    "device": "An execution on the device.",
    "launch": "A launch of a compiled region; imported: also a call of a device's runtime that starts work on it.",
    "copy": "A copy between devices.",
    "sync": "The host waits for the device, or for a collective (`wait: all_reduce`; `detail` says `waits_for`).",
    "collective": "A collective communication: what the host submitted (on its thread's lane, `correlation` -1), or "
    "its flight, from issue to completion as the backend reports it (on a lane of kind `collective` of its group; "
    "duration -1: it never completed). See Collectives.",
    "fallback": "An operator without a native kernel that ran on the CPU.",
    "compile": "A compilation, or a part of one (a phase: `detail` says so).",
    "recompile": "A compilation of a place that was compiled before; it holds its compile row, of the same time.",
    "graph_break": "A place where Dynamo left the graph; an instant inside its compilation or a phase of it.",
    "range": "An annotation or range: `annotate()`, `record_function`, `Optimizer.step#...`.",
    "step": "A step, by the rule that the metadata names.",
    "data_wait": "The host waits for the DataLoader.",
    "gc": "A run of Python's garbage collector.",
    "memory": "An instant about a block of memory on `device`: `allocate`, `release`, `found` (it was there before the "
    "recording), what it holds (`parameter`, `gradient`, `optimizer state`, `buffer`), or `level`, what the allocator "
    "says of itself. `detail` holds the `bytes`, negative for a release.",
    "counter": "A sampled value (`detail` holds it).",
    "link": "One operator's share of an execution that serves several; `parent` is the execution.",
    "warning": "Something the recorder could not do, or that a limit was reached (`recompile_limit`).",
    "frame": "A node of the calling-context tree (id, parent, file, line, function).",
    "source": "The text of a source file that frames name (file, text).",
}

TABLE_KINDS: Final = ("frame", "source")
"""Kinds whose rows are lookup tables, not events."""

OPERATOR_KINDS: Final = ("op", "launch", "copy", "sync", "collective", "fallback")
"""Kinds of operators, which call each other. One called by none of them is at the top level."""

ENGINE_PREFIX: Final = "autograd::engine::"
"""How the name of the autograd engine's own wrapper around a backward node begins: it is no operator."""

PHASES: Final = ("forward", "backward", "recompute", "optimizer", "other")
PERIODS: Final = ("warmup", "compile", "steady")

ATTRIBUTIONS: Final[dict[str, str]] = {
    "stack": "From the Python stack at the moment the event began.",
    "inherited": "Called from C++ inside an event that has a line; that line.",
    "compiled_graph": "An operator of a compiled graph that ran by itself: the line that the compiler kept for it.",
    "forward": "A backward node: the line of its forward op, found through the autograd sequence number.",
    "backward_call": "A backward event without a forward op of its own (a parameter's gradient "
    "accumulation): the line that called backward().",
    "library_frame": "The stack has no user frame; the innermost frame outside torch.",
    "forward_not_observed": "No line: a backward node whose forward op ran before the recording.",
    "parameter_gradient": "No line: accumulates a parameter's gradient on a thread without a Python stack.",
    "no_python_frame": "No line: the thread ran no Python code.",
    "not_recorded": "No line: the recording was made without stacks.",
    "definition": "Imported: the line where the function is defined (of a backward node: the "
    "forward op's), not the line in it that made the call.",
}

CORE_COLUMNS: Final = (
    "kind", "name", "start", "duration", "self", "id", "parent", "lane", "thread",
    "file", "line", "function", "module", "phase", "period", "step",
)  # fmt: skip
"""What ``Trace.events`` holds."""

COLUMN_NAMES: Final = tuple(c.name for c in COLUMNS)
TEXT_COLUMNS: Final = tuple(c.name for c in COLUMNS if c.type == "text")
# Measured on recordings of training: for these two, differences are smaller than zstd alone; for
# parent and sequence, which jump back and forth, they are a third larger.
DELTA_COLUMNS: Final = tuple(c.name for c in COLUMNS if c.encoding == "delta")


def arrow_schema() -> pa.Schema:
    """The Arrow schema of the table (text columns as int32-indexed dictionaries)."""
    import pyarrow as pa

    types = {
        "text": pa.dictionary(pa.int32(), pa.string()),
        "int64": pa.int64(),
        "int32": pa.int32(),
        "int16": pa.int16(),
        "bool": pa.bool_(),
    }
    return pa.schema([pa.field(c.name, types[c.type], nullable=c.type == "text") for c in COLUMNS])


if __name__ == "__main__":
    from neuron_explorer.trace.schema_doc import schema_document

    print(schema_document(), end="")
