"""The ``detail`` of compile, recompile, graph_break and recompile_limit rows: plain JSON, paths by the rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile
from typing import Any, Final

from .compile_text import Texts
from .compiles import Compilation, Compiles, GraphBreak, LimitReached, Phase, Place, Reason, Recompile
from .paths import PathRules

__all__ = ["DETAILS", "Details", "files_of", "places_of"]

DETAILS: Final[dict[str, dict[str, str]]] = {
    "compile": {
        "attempt": "Number of the attempt, from 0; Dynamo starts anew where it cannot go on.",
        "backend": "Name of the backend.",
        "trigger": "What asked for it: forward, backward, compiled_autograd, eager (an operator outside "
        "`torch.compile` on a device that compiles each), runtime.",
        "outcome": "ok, failed, restarted, skipped, or unended (the program ended first).",
        "nth, limit": "Number of this compilation of the place in its process, from 1; Dynamo's limit, -1 unknown.",
        "dynamic": "What was asked about dynamic shapes.",
        "callers": "The user's stack that led to it, innermost first: file, line, function.",
        "restart_reasons": "Why earlier attempts were given up.",
        "failure": "Type, reason, file and line of what failed.",
        "guard_count, guards": "Number of guards, and their texts as far as they were kept.",
        "graph_ops, graph, graph_truncated": "Number of operations; each kept one with op, file, line, function, "
        "module, shapes and dtypes (JSON text as in the columns); whether some were left out.",
        "cache": "Per cache hit, miss or bypass.",
        "tracing_ops": "Operators dispatched while the compiler traced.",
        "inputs": "Shape and dtype of the graph's inputs by name.",
        "facts": "Whatever else was told.",
    },
    "compile (phase)": {
        "phase": "true: the row is a part of a compilation, named by the part; its `parent` is the compilation "
        "or an enclosing part.",
        "label": "Torch's own name of the part; further entries are what torch says about it.",
    },
    "compile (artifact of a device)": {
        "artifact, signature, cache": "Key, what it was compiled for, hit or miss; `trigger` is eager.",
    },
    "recompile": {
        "cause": "Why, as a class (see Causes).",
        "guard": "The guard that failed, whole.",
        "source": "What the user would call the thing that changed.",
        "expected, actual": "What the guard wanted and what was found; empty: not observed.",
        "dimension": "Of the tensor, -1 when none.",
        "caller_file, caller_line, caller_function": "The user's call that led to it.",
        "nth, limit, backend, trigger": "As in compile rows.",
        "previous_compile_id": "Of the cache entry that came closest.",
        "reasons": "One per cache entry, the closest first: entry, cause, guard, source, expected, actual, dimension, "
        "text (as torch gives it), file, line.",
    },
    "graph_break": {
        "reason, type, explanation, hints": "What torch says.",
        "callers": "As in compile rows.",
        "count": "How often.",
    },
    "warning `recompile_limit`": {
        "limit, kind": "The limit that was reached and its name: the function runs eagerly from here on.",
        "callers, reasons": "As above.",
    },
    "warning `recompiles_dropped`": {
        "count": "Recompilations of this place whose reasons were not kept, because there were too many.",
    },
}
"""What ``detail`` holds, per kind of row."""

MAX_DETAIL_BYTES: Final = 4 << 20
_RESUMED: Final = re.compile(r"(?:torch_dynamo_)?resume_in_(.+)_at_\d+$")


class Details:
    """Makes the details of one process's rows."""

    def __init__(self, rules: PathRules, texts: Texts) -> None:
        self._rules = rules
        self._text = texts

    def file(self, name: str) -> str | None:
        """A file as the column shows it."""
        return self._rules.info(name).shown if name else None

    def compilation(self, c: Compilation) -> str:
        """Of a compile row."""
        document: dict[str, Any] = {
            "attempt": c.attempt, "backend": c.backend, "trigger": c.trigger, "outcome": c.outcome, "nth": c.nth,
            "limit": c.limit, "dynamic": c.dynamic, "callers": self._callers(calls_of(c.place, c.callers)),
            "restart_reasons": self._texts(c.restart_reasons), "failure": self._failure(c.failure),
            "guard_count": c.guard_count, "guards": self._texts(c.guards), "graph_ops": c.graph_ops,
            "graph_truncated": c.graph_truncated, "cache": dict(c.cache), "tracing_ops": c.tracing_ops,
        }  # fmt: skip
        inputs = _json(c.inputs)
        if inputs is not None:
            document["inputs"] = inputs
        if c.facts:
            document["facts"] = self._text.inside(c.facts)
        document["graph"] = [
            {"op": n.op, **self._place(n.place), "module": n.module, "shapes": n.shapes, "dtypes": n.dtypes}
            for n in c.graph
        ]
        text = _text_of(document)
        while len(text) > MAX_DETAIL_BYTES and document["graph"]:
            document["graph"] = document["graph"][: len(document["graph"]) // 2]
            document["graph_truncated"] = True
            text = _text_of(document)
        return text

    def phase(self, phase: Phase) -> str:
        """Of a part of a compilation."""
        return json.dumps({**self._text.inside(phase.facts), "label": phase.label, "phase": True})

    def recompile(self, recompile: Recompile, c: Compilation) -> str:
        """Of a recompile row, with the compilation that it was."""
        reasons = [self._reason(r) for r in recompile.reasons]
        first: Mapping[str, Any] = reasons[0] if reasons else {"cause": "no_reason"}
        caller = self._place(next(iter(calls_of(c.place, c.callers)), None))
        named = {k: first.get(k, "") for k in ("cause", "guard", "source", "expected", "actual")}
        return json.dumps(
            named | {"dimension": first.get("dimension", -1)} | {f"caller_{k}": v for k, v in caller.items()}
            | {"nth": c.nth, "limit": c.limit, "previous_compile_id": recompile.previous, "reasons": reasons,
               "backend": c.backend, "trigger": c.trigger}
        )  # fmt: skip

    def graph_break(self, b: GraphBreak) -> str:
        """Of a graph break."""
        return json.dumps(
            {"reason": self._text(b.reason), "type": b.type, "explanation": self._text(b.explanation),
             "hints": self._texts(b.hints), "callers": self._callers(b.callers), "count": b.count}
        )  # fmt: skip

    def limit(self, limit: LimitReached) -> str:
        """Of a limit that was reached."""
        return json.dumps(
            {"limit": limit.limit, "kind": limit.kind, "callers": self._callers(calls_of(limit.place, limit.callers)),
             "reasons": [self._reason(r) for r in limit.reasons]}
        )  # fmt: skip

    def _reason(self, r: Reason) -> dict[str, Any]:
        place = self._place(r.place)
        return {
            "entry": r.entry, "cause": r.cause, "guard": self._text(r.guard), "source": r.source,
            "expected": self._text(r.expected), "actual": self._text(r.actual), "dimension": r.dimension,
            "text": self._text(r.text), "file": place["file"], "line": place["line"],
        }  # fmt: skip

    def _failure(self, failure: Mapping[str, Any]) -> dict[str, Any]:
        shown = self._text.inside(dict(failure))
        if isinstance(failure.get("file"), str):
            shown["file"] = self.file(failure["file"])
        return shown

    def _place(self, place: Place | None) -> dict[str, Any]:
        if place is None:
            return {"file": None, "line": -1, "function": ""}
        return {"file": self.file(place.file), "line": place.line, "function": place.function}

    def _callers(self, places: Iterable[Place]) -> list[dict[str, Any]]:
        return [self._place(p) for p in places]

    def _texts(self, texts: Iterable[str]) -> list[str]:
        return [self._text(t) for t in texts]


def calls_of(place: Place, callers: Sequence[Place]) -> Sequence[Place]:
    """The calls that led to a function. What goes on after a graph break is entered from the function
    itself, at the line of the break: the call that matters is the one of the whole function."""
    if _RESUMED.search(place.function) is None:
        return callers
    own = (place.file, _written_name(place.function))
    outside = list(dropwhile(lambda c: (c.file, _written_name(c.function)) == own, callers))
    return outside or callers


def _written_name(function: str) -> str:
    """``forward`` of ``Model.torch_dynamo_resume_in_forward_at_12``."""
    while (match := _RESUMED.search(function)) is not None:
        function = match[1]
    return function.rsplit(".", 1)[-1].strip("<>_")


def _text_of(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def places_of(compiles: Compiles) -> Iterator[Place]:
    """Every place that is named."""
    for c in compiles.compilations:
        yield c.place
        yield from c.callers
        yield from (n.place for n in c.graph if n.place is not None)
    for b in compiles.breaks:
        yield b.place
        yield from b.callers
    for limit in compiles.limits:
        yield limit.place
        yield from limit.callers
    for recompile in compiles.recompiles:
        yield from (r.place for r in recompile.reasons if r.place is not None)


def files_of(compiles: Compiles) -> set[str]:
    """The names of all files that are named."""
    return {place.file for place in places_of(compiles)}
