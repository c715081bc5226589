"""Which lines of the program the generated code of compiled graphs stands for.

A compiled graph that runs operator by operator runs Python code that was generated, under a file
name such as ``<eval_with_key>.3``. The compiler kept for every node of the graph the stack of
the program that it came from. Only texts and numbers are kept here, never a graph.
"""

from __future__ import annotations

import re
import threading
from typing import Any

__all__ = ["ENTRY", "document", "note"]

ENTRY = "graph_lines"
"""Name of the entry in ``session.json``."""

MOST_LINES = 50_000
MOST_STACKS = 20_000
_INNERMOST = 6
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line (\d+), in (.+)$', re.MULTILINE)

_lock = threading.Lock()
_files: dict[str, dict[str, int]] = {}
_stacks: dict[str, int] = {}
_count = 0


def note(graph: Any) -> None:
    """Remember the lines of a ``torch.fx.GraphModule``. Does nothing where this torch has no such thing."""
    global _count
    try:
        compile_now = getattr(graph, "real_recompile", None)  # its code is generated at its first call
        if compile_now is not None:
            compile_now()
        file = type(graph).forward.__code__.co_filename
        first, nodes = graph._prologue_start, list(graph.graph.nodes)
        traces = [(line + first, nodes[node].meta.get("stack_trace"))
                  for line, node in graph._lineno_map.items() if node is not None]  # fmt: skip
    except (AttributeError, TypeError, IndexError):
        return
    with _lock:
        lines: dict[str, int] = {}
        for line, trace in traces:
            if not isinstance(trace, str) or _count >= MOST_LINES:
                continue
            if trace not in _stacks and len(_stacks) >= MOST_STACKS:
                continue
            lines[str(line)] = _stacks.setdefault(trace, len(_stacks))
            _count += 1
        if lines:
            _files[file] = lines


def document() -> dict[str, Any]:
    """``stacks``: lists of [file, line, function], innermost first; ``files``: generated file → line → stack."""
    with _lock:
        if not _files:
            return {}
        stacks = [
            [[file, int(line), name] for file, line, name in reversed(_FRAME.findall(trace)[-_INNERMOST:])]
            for trace in _stacks
        ]
        return {"stacks": stacks, "files": {file: dict(lines) for file, lines in _files.items()}}
