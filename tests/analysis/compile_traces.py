"""Hand-built compilations, as rows have them. Loaded by path, like ``synthetic``."""

from __future__ import annotations

import json
from typing import Any

from synthetic import MAIN, PROCESS, event, lane, memory_trace, metadata

COMPILE_LANE = 7
MS = 1_000_000
SECOND = 1_000_000_000


def seen(duration_ns: int = 100 * SECOND, **changes: Any) -> dict[str, Any]:
    """Metadata of a recording that saw compilations."""
    base = metadata()
    lanes = [*base["lanes"], lane(COMPILE_LANE, "compile", "compile") | {"os_thread": PROCESS + MAIN}]
    observed = {"compile": {"observed": True, "reason": ""}}
    return {"duration_ns": duration_ns, "lanes": lanes, "capabilities": base["capabilities"] | observed} | changes


def compilation(
    start: int, duration: int, *children: Any, compile_id: str = "0/0", function: str = "f", line: int = 3,
    file: str = "model.py", **detail: Any,
) -> Any:  # fmt: skip
    """A compile row. ``children``: phases and graph breaks."""
    facts = {
        "attempt": 0, "backend": "inductor", "trigger": "forward", "outcome": "ok", "nth": 1, "limit": 8, "dynamic": "",
        "callers": [{"file": "train.py", "line": 40, "function": "main"}], "cache": {}, "graph": [],
    } | detail  # fmt: skip
    return event(
        function, start, duration, *children, kind="compile", lane=COMPILE_LANE, file=file, line=line,
        function=function, compile_id=compile_id, detail=json.dumps(facts),
    )  # fmt: skip


def recompilation(start: int, duration: int, n: int, cause: str = "size", **changes: Any) -> Any:
    """A recompile row around its compile row: compilation ``0/n``, the (n+1)th of the place."""
    keys = ("function", "line", "file")
    place = {k: changes.pop(k) for k in keys if k in changes}
    compile_keys = ("backend", "dynamic", "outcome", "compile_id")
    inner = {k: changes.pop(k) for k in compile_keys if k in changes}
    inner.setdefault("compile_id", f"0/{n}")
    facts: dict[str, Any] = {
        "cause": cause, "guard": "a guard", "source": "x.shape[0]", "expected": str(7 + n), "actual": str(8 + n),
        "dimension": 0, "caller_file": "train.py", "caller_line": 40, "caller_function": "main", "nth": n + 1,
        "limit": 8, "previous_compile_id": f"0/{n - 1}", "backend": inner.get("backend", "inductor"),
        "trigger": "forward", "reasons": [{"entry": f"0/{n - 1}", "cause": cause, "guard": "a guard"}],
    } | changes  # fmt: skip
    child = compilation(start, duration, nth=n + 1, **inner, **place)
    return event(
        child.name, start, duration, child, kind="recompile", lane=COMPILE_LANE, file=child.columns["file"],
        line=child.columns["line"], function=child.name, compile_id=inner["compile_id"], detail=json.dumps(facts),
    )  # fmt: skip


def phase(name: str, start: int, duration: int, *children: Any, compile_id: str = "0/0") -> Any:
    """A part of a compilation."""
    return event(name, start, duration, *children, kind="compile", lane=COMPILE_LANE, compile_id=compile_id,
                 detail=json.dumps({"label": f"torch.{name}", "phase": True}))  # fmt: skip


def graph_break(start: int, line: int = 5, function: str = "f", **detail: Any) -> Any:
    """A graph break, an instant."""
    facts = {
        "reason": "builtin: print", "type": "Unsupported builtin", "explanation": "", "hints": [], "count": 1,
        "callers": [{"file": "model.py", "line": line, "function": function},
                    {"file": "train.py", "line": 40, "function": "main"}],
    } | detail  # fmt: skip
    return event(facts["type"], start, 0, kind="graph_break", lane=COMPILE_LANE, file="model.py", line=line,
                 function=function, detail=json.dumps(facts))  # fmt: skip


def limit_reached(start: int, **detail: Any) -> Any:
    """Dynamo gave up."""
    facts = {"limit": 8, "kind": "recompile_limit", "callers": [{"file": "train.py", "line": 40, "function": "main"}],
             "reasons": []} | detail  # fmt: skip
    return event("recompile_limit", start, 0, kind="warning", lane=COMPILE_LANE, file="model.py", line=3,
                 function="f", detail=json.dumps(facts))  # fmt: skip


def launch(start: int, duration: int, *children: Any, compile_id: str = "0/0", line: int = 40, **columns: Any) -> Any:
    """A launch of a compiled region on the main thread."""
    return event(f"Torch-Compiled Region: {compile_id}", start, duration, *children, kind="launch",
                 compile_id=compile_id, file="train.py", line=line, function="main", **columns)  # fmt: skip


def artifact(start: int, shape: list[int], line: int = 9, name: str = "aten::mm", duration: int = 1 * MS) -> Any:
    """An artifact of an eager operator."""
    detail = {"artifact": f"a{start}", "signature": json.dumps([shape]), "cache": "miss", "trigger": "eager"}
    return event(name, start, duration, kind="compile", file="model.py", line=line, function="f",
                 detail=json.dumps(detail))  # fmt: skip


def trace_of(events: list[Any], periods: Any = (), sources: Any = None, **changes: Any) -> Any:
    """A trace in memory of these, in a recording that saw compilations."""
    return memory_trace(events, periods, sources, **(seen() | changes))
