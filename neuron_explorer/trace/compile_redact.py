"""What a redacted trace keeps of the details of compilations: classes, counts, places and shapes.

Guards, reasons and explanations quote the values of a program's objects and lines of its source,
so they go with the arguments; names of files inside what stays are shortened with the paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from .compile_text import without_source

__all__ = ["COMPILE_KINDS", "NAMES", "redacted_detail"]

COMPILE_KINDS: Final = frozenset({"compile", "recompile", "graph_break", "warning"})
NAMES: Final = frozenset({"recompile_limit", "recompiles_dropped"})
"""Names of warnings that are the tool's own."""

# Entries that say nothing of a program's values. A source line is one: file and line stay, the text goes.
_KEPT: Final = frozenset({
    "attempt", "backend", "trigger", "outcome", "nth", "limit", "dynamic", "callers", "guard_count", "graph_ops",
    "graph", "graph_truncated", "cache", "tracing_ops", "phase", "label", "cause", "dimension", "caller_file",
    "caller_line", "caller_function", "previous_compile_id", "reasons", "type", "count", "kind",
})  # fmt: skip
_KEPT_INSIDE: Final[dict[str, frozenset[str]]] = {
    "callers": frozenset({"file", "line", "function"}),
    "graph": frozenset({"op", "file", "line", "function", "module", "shapes", "dtypes"}),
    "reasons": frozenset({"entry", "cause", "dimension", "file", "line"}),
}
_OF_TENSORS: Final = frozenset({"size", "stride", "dtype", "device", "requires_grad"})
"""Causes whose expected and found values are what the columns of shapes and dtypes show as well."""
_FILES: Final = ("file", "caller_file")
_DIRECTORIES: Final = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[/\\][^\s'\"/\\:(),]{1,255}){1,64}[/\\]")


class Shortener(Protocol):
    """Names of files without directories."""

    def __call__(self, file: str) -> str: ...
    def inside(self, text: str) -> str: ...


def redacted_detail(text: str, *, arguments: bool, source: bool, shorten: Shortener | None) -> str | None:
    """The detail of a compile, recompile, graph_break or warning row without what is to be removed."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if arguments:
        document = _without_values(document)
    if shorten is not None:
        _walk(document, lambda key, value: shorten(value) if key in _FILES else value)
    if source or shorten is not None:

        def clean(key: str, value: str) -> str:
            if key in _FILES:
                return value
            if source:
                value = without_source(value)
            return value if shorten is None else _DIRECTORIES.sub("", shorten.inside(value))

        _walk(document, clean)
    return json.dumps(document) if document else None


def _without_values(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key in _KEPT}
    for key, names in _KEPT_INSIDE.items():
        if key in kept:
            entries = kept[key] if isinstance(kept[key], list) else []
            kept[key] = [_with_shapes(e, {k: v for k, v in e.items() if k in names})
                         for e in entries if isinstance(e, dict)]  # fmt: skip
    failure = document.get("failure")
    if isinstance(failure, dict) and isinstance(failure.get("type"), str):
        kept["failure"] = {"type": failure["type"]}
    return _with_shapes(document, kept)


def _with_shapes(entry: Mapping[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    if entry.get("cause") in _OF_TENSORS:
        kept |= {k: entry[k] for k in ("expected", "actual") if isinstance(entry.get(k), str)}
    return kept


def _walk(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Change every text inside, in place, knowing the key it stands under."""
    if isinstance(value, str):
        return change(key, value)
    if isinstance(value, dict):
        for name, inner in list(value.items()):
            value[name] = _walk(inner, change, name)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            value[position] = _walk(inner, change, key)
    return value
