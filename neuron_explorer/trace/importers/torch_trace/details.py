"""What single records tell of a compilation: guards, graphs, reasons, breaks, caches, metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...compile_spool import MAX_GRAPH_NODES, bounded_json
from ...compiles import Place
from .attempts import Attempt, OpenCompile
from .budget import Budget
from .graphs import PrintedGraph, guards_of, read_printed_graph
from .lines import Record
from .texts import break_of, limit_of, reasons_of
from .values import is_int, is_number, parsed, text_of

__all__ = ["Details", "place_of", "tells", "wanted"]

MAX_TOLD: Final = 4000
"""Characters of a text that are kept."""

_CACHE: Final = re.compile(r"artifact:(?P<cache>[a-z_]{1,60}?)(?:_bundled)?_cache_(?P<result>hit|miss|bypass)")
_GRAPHS: Final = ("dynamo_output_graph", "compiled_autograd_graph", "artifact:compiled_autograd_graph")
_BACKWARD_GRAPH: Final = "aot_backward_graph"
_TELLING: Final = frozenset(
    (*_GRAPHS, _BACKWARD_GRAPH, "dynamo_cpp_guards_str", "dynamo_guards", "artifact:recompile_reasons",
     "artifact:dynamo_graph_break_reason", "artifact:dynamo_error", "inductor_output_code")
)  # fmt: skip
_FACTS: Final = (
    "guard_latency_us", "num_graph_breaks", "graph_node_count", "graph_input_count", "cache_size",
    "accumulated_cache_size", "dynamo_time_before_restart_s", "structured_logging_overhead_us",
    "structured_logging_overhead_s", "remote_cache_time_saved_s", "triton_compile_time_us", "gc_time_us",
    "is_runtime", "has_guarded_code", "log_format_version", "dynamo_cumulative_compile_time_us",
    "aot_autograd_cumulative_compile_time_us", "inductor_cumulative_compile_time_us",
    "inductor_code_gen_cumulative_compile_time_us",
)  # fmt: skip
_WHOLE: Final = (
    "fail_type", "fail_reason", "fail_user_frame_filename", "fail_user_frame_lineno", "restart_reasons", "co_name",
    "co_filename", "co_firstlineno", "guard_count", "graph_op_count", "has_guarded_code", "recompile_reason",
)  # fmt: skip


def tells(name: str) -> bool:
    """Whether a record of this name says something about one compilation."""
    return name in _TELLING or _CACHE.fullmatch(name) is not None


def wanted(name: str) -> bool:
    """Whether the payload of a record of this name is read."""
    return name in ("chromium_event", "artifact:torch_version") or (tells(name) and name != "inductor_output_code")


def place_of(compile_: OpenCompile) -> Place | None:
    """The function that is compiled, where the log says so."""
    file, line, name = (compile_.metrics.get(n) for n in ("co_filename", "co_firstlineno", "co_name"))
    if isinstance(file, str) and file and is_int(line) and 0 <= line < 1 << 31:
        return Place(file, line, name[:500] if isinstance(name, str) else "")
    return compile_.place


class Details:
    """Takes what records tell, as far as the budget has room; ``dropped`` counts what it has none for."""

    def __init__(self, budget: Budget, dropped: Counter[str]) -> None:
        self._budget = budget
        self._dropped = dropped
        self._stacks: dict[tuple[Place, ...], list[Place]] = {}
        self._backward_graphs: dict[str, PrintedGraph] = {}

    def take(self, compile_: OpenCompile, attempt: Attempt, record: Record, time: int) -> None:
        """One record of those that :func:`tells` names; of ``time`` where the log's own is all there is."""
        name, payload = record.name, record.payload
        cache = _CACHE.fullmatch(name)
        if cache is not None:
            self._cache(compile_, attempt, cache["cache"], cache["result"], parsed(payload))
        elif name == "inductor_output_code":
            compile_.inductor = True
        elif name == "dynamo_guards":
            self._guard_list(attempt, parsed(payload))
        elif payload is None:
            return
        elif name == "dynamo_cpp_guards_str":
            guards, number = guards_of(text_of(payload))
            attempt.guards, attempt.guard_count = self._texts(guards, "guards"), number
        elif name == "artifact:recompile_reasons":
            compile_.reasons = list(self._texts(reasons_of(text_of(payload)), "reasons"))
        elif name == "artifact:dynamo_graph_break_reason":
            self._break(attempt, payload, time)
        elif name == "artifact:dynamo_error":
            attempt.error = self._budget.text(text_of(payload[-MAX_TOLD:])) or ""
        else:
            self._graph(compile_, attempt, name, payload)

    def metrics(self, compile_: OpenCompile, attempt: Attempt, metrics: Mapping[str, Any]) -> None:
        """The numbers, names and failures that torch logs when a compilation ends."""
        if metrics.get("dynamo_config") is not None:
            compile_.limits = limit_of(metrics)
        compile_.metrics = {n: self._told(metrics[n]) for n in _WHOLE if metrics.get(n) is not None}
        attempt.facts |= bounded_json({n: metrics[n] for n in _FACTS if metrics.get(n) not in (None, "")})

    def stack(self, frames: list[Place]) -> list[Place]:
        """The frames, kept once for all compilations that were reached in the same way."""
        key = tuple(frames)
        known = self._stacks.get(key)
        if known is not None:
            return known
        if not self._budget.room(sum(len(f.file) + len(f.function) + 150 for f in frames)):
            self._dropped["stacks"] += 1
            return frames[-1:]
        self._stacks[key] = frames
        return frames

    def forward_begins(self, compile_id: str) -> None:
        """A compilation of this id begins: what was kept for an earlier one's backward is of no use."""
        self._backward_graphs.pop(compile_id, None)

    def backward_begins(self, compile_id: str, attempt: Attempt) -> None:
        """The backward graph of this id is compiled now; its text came with the forward's."""
        graph = self._backward_graphs.pop(compile_id, None)
        if graph is not None:
            _take_graph(attempt, graph)

    def _told(self, value: Any) -> Any:
        """A value of the metrics as it is kept: texts once and cut, of lists the first texts."""
        if isinstance(value, str):
            return self._budget.text(value, MAX_TOLD) or ""
        if isinstance(value, list):
            return [self._budget.text(v, MAX_TOLD) or "" for v in value[:100] if isinstance(v, str)]
        return value if isinstance(value, (bool, float)) or (is_int(value) and abs(value) < 1 << 63) else None

    def _texts(self, texts: Iterable[str], what: str) -> tuple[str, ...]:
        """The texts that there is room for."""
        kept = []
        for text in texts:
            known = self._budget.text(text, MAX_TOLD)
            if known is None:
                self._dropped[what] += 1
            else:
                kept.append(known)
        return tuple(kept)

    def _guard_list(self, attempt: Attempt, listed: Any) -> None:
        if not isinstance(listed, list) or attempt.guards:
            return
        codes = [g["code"] for g in listed[:200] if isinstance(g, dict) and isinstance(g.get("code"), str)]
        attempt.guards, attempt.guard_count = self._texts(codes, "guards"), len(listed)

    def _graph(self, compile_: OpenCompile, attempt: Attempt, name: str, payload: bytes) -> None:
        graph = read_printed_graph(text_of(payload), max(0, min(MAX_GRAPH_NODES, self._budget.nodes)))
        self._budget.nodes -= len(graph.nodes)
        if name == _BACKWARD_GRAPH and compile_.trigger != "backward":
            self._backward_graphs[compile_.compile_id] = graph
        elif attempt.graph_ops < 0:  # a frame may have several: the first, as Dynamo counts
            _take_graph(attempt, graph)

    def _break(self, attempt: Attempt, payload: bytes, time: int) -> None:
        told = break_of(text_of(payload[:200_000]))
        size = 500 + len(told.reason) + len(told.explanation) + sum(map(len, told.hints)) + 150 * len(told.callers)
        if len(attempt.breaks) >= 1000 or not self._budget.graph_break() or not self._budget.room(size):
            self._dropped["graph breaks"] += 1
            return
        attempt.breaks.append((time, told))

    def _cache(self, compile_: OpenCompile, attempt: Attempt, cache: str, result: str, details: Any) -> None:
        compile_.inductor |= cache == "fx_graph"  # Inductor's own cache
        attempt.cache[cache, result] += 1
        if not isinstance(details, dict):
            return
        saved, milliseconds = details.get("time_saved_ns"), details.get("time_saved_ms")
        if not is_int(saved) and is_number(milliseconds) and 0 <= milliseconds < 1e12:
            saved = int(milliseconds * 1e6)
        if is_int(saved) and 0 <= saved < 1 << 60:
            attempt.facts["cache_time_saved_ns"] = attempt.facts.get("cache_time_saved_ns", 0) + saved
        reason = details.get("cache_bypass_reason")
        if isinstance(reason, str) and reason:
            attempt.facts[f"{cache}_bypass_reason"] = reason[:300]


def _take_graph(attempt: Attempt, graph: PrintedGraph) -> None:
    attempt.graph, attempt.graph_ops = graph.nodes, graph.operators
    attempt.graph_truncated, attempt.inputs = graph.truncated, graph.inputs
