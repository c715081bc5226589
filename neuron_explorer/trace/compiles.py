"""What is known about compilations: the records between whoever saw them and the rows of a trace.

The compiler recorder writes them while a program runs, the importer of a ``TORCH_TRACE`` log
makes them from its lines, and ``compile_rows`` turns them into rows. Times are int64 nanoseconds
on one clock (``CLOCK_MONOTONIC`` while recording); -1 is "not observed".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

CAUSES: Final[dict[str, str]] = {
    "size": "The size of a tensor, or of a dimension, changed.",
    "stride": "The strides (memory layout) of a tensor changed.",
    "dtype": "The dtype of a tensor changed.",
    "device": "The device of a tensor changed.",
    "requires_grad": "A tensor began or ceased to require gradients.",
    "object_identity": "Another object is where one object was.",
    "python_value": "A Python value (number, string or other) that is baked into the graph changed.",
    "global_value": "A value read from a module's globals changed.",
    "module_state": "An attribute of an nn.Module changed (train and eval among them).",
    "grad_mode": "Global state of torch changed: grad mode, autocast, deterministic algorithms, threads.",
    "no_reason": "Dynamo gave no reason.",
    "other": "A reason of a form that is not known; its text is shown whole.",
}
"""Why a place was compiled again."""

PHASES: Final[dict[str, str]] = {
    "bytecode_tracing": "Dynamo runs the bytecode symbolically and builds the graph.",
    "build_guards": "Dynamo makes the guards that say when the compiled code may be used.",
    "aot": "AOTAutograd traces forward and backward and makes them functional.",
    "backend": "The backend's own call, with everything inside it.",
    "graph_passes": "Passes over the graph before code is made.",
    "lowering": "The backend turns the graph into its own form.",
    "code_generation": "Source or machine code is generated.",
    "kernel_compile": "Generated code is compiled (Triton, C++).",
    "autotuning": "Candidates are timed against each other.",
    "cache": "A cache is asked or filled.",
    "other": "A part whose name is not known; the name is kept.",
}
"""Parts of a compilation, which nest."""

OUTCOMES: Final = ("ok", "failed", "restarted", "skipped", "unended")
TRIGGERS: Final = ("forward", "backward", "compiled_autograd", "eager", "runtime")
CACHE_RESULTS: Final = ("hit", "miss", "bypass")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a program. ``file`` as Python names it (a path, or ``<string>``)."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operation of a compiled graph, and the line that made it (None: the compiler's own)."""

    op: str
    place: Place | None = None
    module: str = ""
    shapes: str = ""  # JSON, as the column `shapes`
    dtypes: str = ""


@dataclass(frozen=True)
class Reason:
    """Why one cache entry could not be used: the text as torch gives it, and what it says."""

    text: str
    cause: str
    guard: str  # the guard's expression or sentence, whole
    source: str = ""  # what the user would call it: `x`, `self.scale`, `x.shape[1]`
    expected: str = ""
    actual: str = ""  # "" is not observed
    dimension: int = -1
    entry: str = ""  # compile id of the cache entry
    place: Place | None = None  # the line that the guard names


@dataclass(frozen=True)
class Compilation:
    """One attempt to compile one frame, backward graph or eager operator.

    ``function`` and ``place`` are of the code that is compiled (``place.line`` is its first
    line). ``callers``: the user's stack that led to it, innermost first. ``nth`` counts the
    compilations of this place in this process from 1. ``limit``: Dynamo's limit for the place.
    """

    key: int  # unique in the process
    compile_id: str  # "0/1", "!0/0/0" for compiled autograd, "" where there is none
    attempt: int
    start: int
    end: int  # -1: never ended
    thread: int  # OS thread id
    place: Place
    trigger: str = "forward"
    backend: str = ""
    outcome: str = "ok"
    nth: int = 1
    limit: int = -1
    dynamic: str = ""
    callers: tuple[Place, ...] = ()
    restart_reasons: tuple[str, ...] = ()
    failure: dict[str, Any] = field(default_factory=dict)  # type, reason, file, line
    guard_count: int = -1
    guards: tuple[str, ...] = ()
    graph_ops: int = -1
    graph: tuple[GraphNode, ...] = ()
    graph_truncated: bool = False
    cache: dict[str, str] = field(default_factory=dict)  # fx_graph, aotautograd, neuron -> CACHE_RESULTS
    tracing_ops: int = -1
    inputs: str = ""  # JSON: name -> shape and dtype of the graph's inputs, bounded
    facts: dict[str, Any] = field(default_factory=dict)  # anything else worth keeping, bounded


@dataclass(frozen=True)
class Phase:
    """A part of a compilation. ``name`` is one of PHASES, ``label`` torch's own name of it."""

    key: int  # of the compilation; -1: outside any
    name: str
    label: str
    start: int
    end: int
    thread: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recompile:
    """The compilation ``key`` was of a place compiled before. ``reasons``: the closest entry's first."""

    key: int
    reasons: tuple[Reason, ...]
    previous: str = ""  # compile id of the closest entry


@dataclass(frozen=True)
class GraphBreak:
    """A place where Dynamo left the graph, seen while compiling ``key``."""

    key: int
    time: int
    thread: int
    place: Place  # the user's line
    reason: str
    type: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    callers: tuple[Place, ...] = ()
    count: int = 1


@dataclass(frozen=True)
class LimitReached:
    """Dynamo gave up on a place: it runs eagerly from here on."""

    time: int
    thread: int
    place: Place
    limit: int
    kind: str = "recompile_limit"  # or accumulated_recompile_limit
    callers: tuple[Place, ...] = ()
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Compiles:
    """Everything about the compilations of one process, each list by time."""

    pid: int
    compilations: tuple[Compilation, ...] = ()
    phases: tuple[Phase, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    limits: tuple[LimitReached, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)  # what was over a bound, counted
    notes: tuple[str, ...] = ()  # what this torch did not tell, for the capability flags
