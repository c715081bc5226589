"""Compilations that have begun and not ended, a stack of them for each thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from neuron_explorer.trace.compiles import Compilation, GraphBreak, Phase, Place, Reason
from neuron_explorer.trace.recorders.compiler_graphs import Graph

__all__ = ["OpenCompile", "Threads", "small_facts"]

_NO_FACTS = frozenset({"compile_id", "fn_name", "components", "cache_event_time", "is_backward", "graph_id"})
_MOST_FACTS = 12
CAPTURE = "compiled_autograd"
_MOST_TEXT = 200


@dataclass(eq=False)
class OpenCompile:
    """One compilation on its way. With each attempt the parts below ``key`` begin anew."""

    compile_id: str
    thread: int
    place: Place
    trigger: str
    callers: tuple[Place, ...] = ()
    backend: str = ""
    dynamic: str = ""
    nth: int = 1
    limit: int = -1
    local: Mapping[str, Any] | None = None  # of the frame, until the reasons are known
    outside: Mapping[str, Any] | None = None
    reasons: tuple[Reason, ...] = ()
    recompiled: bool = False
    limit_reached: bool = False
    begun: bool = False
    restarts: list[str] = field(default_factory=list)
    counters: Mapping[str, int] = field(default_factory=dict)
    structured: dict[str, Any] = field(default_factory=dict)
    shared: bool = False  # another thread compiled at the same time

    key: int = 0
    attempt: int = 0
    start: int = 0
    tracing_ops: int = -1
    graph: Graph | None = None
    cache: dict[str, str] = field(default_factory=dict)
    breaks: dict[tuple[str, int, str], tuple[GraphBreak, int]] = field(default_factory=dict)

    def next_attempt(self, key: int, start: int, tracing_ops: int) -> None:
        """Forget what belongs to the last one."""
        self.key, self.start, self.tracing_ops = key, start, tracing_ops
        self.attempt += 1
        self.graph, self.cache, self.breaks, self.structured = None, {}, {}, {}

    def compilation(self, end: int = -1, outcome: str = "unended", **more: Any) -> Compilation:
        """What is known of this attempt."""
        graph = self.graph
        if graph is not None:
            more.setdefault("graph_ops", graph.operators)
            more.update(graph=graph.nodes, graph_truncated=graph.truncated, inputs=graph.inputs)
        return Compilation(
            key=self.key,
            compile_id=self.compile_id,
            attempt=self.attempt,
            start=self.start,
            end=end,
            thread=self.thread,
            place=self.place,
            trigger=self.trigger,
            backend=self.backend,
            outcome=outcome,
            nth=self.nth,
            limit=self.limit,
            dynamic=self.dynamic,
            callers=self.callers,
            cache=dict(self.cache),
            **more,
        )


class _Thread(threading.local):
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.native_id = threading.get_native_id()
        self.compiles: list[OpenCompile] = []
        self.phases: list[tuple[str, int]] = []


class Threads:
    """The calling thread's open compilations and phases. A forked child begins with none."""

    def __init__(self, compiling: Callable[[bool], None] | None = None) -> None:
        self._own = _Thread()
        self._compiling = compiling
        self._open: list[OpenCompile] = []  # of all threads

    def _thread(self) -> _Thread:
        own = self._own
        if own.pid != os.getpid():
            self._open = []
            own.__init__()  # type: ignore[misc]
        return own

    @property
    def native_id(self) -> int:
        """The OS's id of the calling thread."""
        return self._thread().native_id

    @property
    def current(self) -> OpenCompile | None:
        """The innermost compilation of the calling thread."""
        compiles = self._thread().compiles
        return compiles[-1] if compiles else None

    def with_id(self, compile_id: str) -> OpenCompile | None:
        """The open compilation with this id, of any thread."""
        return next((one for one in reversed(self._open) if one.compile_id == compile_id), None)

    def open(self, compile_: OpenCompile) -> None:
        """Push it for the calling thread."""
        self._thread().compiles.append(compile_)
        for other in list(self._open):
            if other.thread != compile_.thread:
                other.shared = compile_.shared = True
        self._open.append(compile_)
        self._tell()

    def close(self, compile_: OpenCompile) -> None:
        """Take it and whatever was opened inside it and never closed."""
        compiles = self._thread().compiles
        if compile_ in compiles:
            for one in compiles[compiles.index(compile_) :]:
                if one in self._open:
                    self._open.remove(one)
            del compiles[compiles.index(compile_) :]
            self._tell()

    def with_trigger(self, trigger: str) -> OpenCompile | None:
        """The innermost compilation of the calling thread that began so."""
        return next((one for one in reversed(self._thread().compiles) if one.trigger == trigger), None)

    def _tell(self) -> None:
        """Whether what runs on this thread from here on is the compiler's. Capturing the autograd graph
        is not counted: where it fails, nothing says so."""
        if self._compiling is not None:
            self._compiling(any(one.trigger != CAPTURE or "/" in one.compile_id for one in self._thread().compiles))

    def open_phase(self, label: str, now: int) -> None:
        """A part begins on the calling thread."""
        self._thread().phases.append((label, now))

    def close_phase(self, label: str) -> int | None:
        """When the innermost part of this name began; forgets it, and what was left open inside it."""
        phases = self._thread().phases
        for index in range(len(phases) - 1, -1, -1):
            if phases[index][0] == label:
                start = phases[index][1]
                del phases[index:]
                return start
        return None


def small_facts(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The plain and short entries of what torch says about an event."""
    facts: dict[str, Any] = {}
    for name, value in _plain(metadata):
        if len(facts) == _MOST_FACTS:
            break
        facts[name] = value
    return facts


def _plain(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    for name, value in (metadata or {}).items():
        if isinstance(name, str) and name not in _NO_FACTS:
            if type(value) in (int, bool) or (type(value) is str and 0 < len(value) <= _MOST_TEXT):
                yield name, value
            elif type(value) is float:
                yield name, round(value, 6)


def phase_record(key: int, name: str, label: str, start: int, end: int, thread: int, facts: dict[str, Any]) -> Phase:
    """A part that has ended."""
    return Phase(key, name, label, start, max(start, end), thread, facts)
