"""What a compilation, a recompilation, a graph break or a reached limit says, for the panel: bounded plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.trace.compiles import CAUSES, PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

__all__ = ["compilation", "compiled_by", "launches"]

MAX_DETAIL: Final = 8 << 20
MAX_REASONS: Final = 6
MAX_PLACES: Final = 12
MAX_GUARDS: Final = 30
MAX_LINES: Final = 40
MAX_OPS_OF_LINE: Final = 8
MAX_INPUTS: Final = 20
MAX_LONG: Final = 4000
_WARNINGS: Final = ("recompile_limit", "recompiles_dropped")


def compilation(trace: Trace, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The structured part of a panel; None where the event is no compilation or says nothing."""
    kind = event["kind"]
    if kind == "warning" and event["name"] not in _WARNINGS:
        return None
    if kind not in ("compile", "recompile", "graph_break", "warning"):
        return None
    detail = _document(event["detail"])
    if kind == "graph_break":
        return _graph_break(detail)
    if kind == "warning":
        return _limit(event, detail)
    if kind == "recompile":
        inner = _inner(trace, event)
        return _recompile(detail) | (_compile(trace, inner, _document(inner["detail"]), short=True) if inner else {})
    if detail.get("phase") is True:
        meaning = PHASES.get(event["name"], "")
        return {"note": meaning} if meaning else {}
    if "artifact" in detail or not detail:
        return None
    outer = _outer(trace, event)
    return _compile(trace, event, detail) | ({"reasons": _recompile(outer)["reasons"]} if outer else {})


def compiled_by(trace: Trace, event: Mapping[str, Any]) -> int:
    """Id of the compile row that a compile or recompile row is or holds, -1 for other rows."""
    if event["kind"] == "compile":
        return event["id"] if _document(event["detail"]).get("phase") is not True else -1
    if event["kind"] == "recompile":
        inner = _inner(trace, event)
        return inner["id"] if inner else -1
    return -1


def launches(trace: Trace, compile_row: int) -> dict[str, int] | None:
    """How often what was compiled is launched, and for how long in all; None when it never is."""
    found = trace.sql_arrow(
        "SELECT count(*) AS n, coalesce(sum(greatest(duration, 0)), 0) AS total FROM events "
        "WHERE kind = 'launch' AND correlation = ?",
        (compile_row,),
    ).to_pylist()[0]
    return {"count": found["n"], "total": int(found["total"])} if found["n"] else None


def _inner(trace: Trace, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The compile row inside a recompile row."""
    found = trace.sql_arrow(
        'SELECT id, kind, name, "start", duration, "self", lane, detail FROM events '
        "WHERE parent = ? AND kind = 'compile' AND \"start\" = ? LIMIT 1",
        (event["id"], event["start"]),
    ).to_pylist()
    return found[0] if found else None


def _outer(trace: Trace, event: Mapping[str, Any]) -> dict[str, Any]:
    """The detail of the recompile row around a compile row."""
    if event["parent"] < 0:
        return {}
    found = trace.sql_arrow(
        "SELECT detail FROM events WHERE id = ? AND kind = 'recompile' AND \"start\" <= ? LIMIT 1",
        (event["parent"], event["start"]),
    ).to_pylist()
    return _document(found[0]["detail"]) if found else {}


def _recompile(detail: Mapping[str, Any]) -> dict[str, Any]:
    reasons = _reasons(detail)
    if not reasons["shown"]:
        first = _reason(detail)
        reasons = {"shown": [first] if first else [], "more": 0}
    caller = _place({k: detail.get(f"caller_{k}") for k in ("file", "line", "function")})
    return {
        "facts": _nth(detail) + _texts(detail, ("previous_compile_id", "closest entry")),
        "reasons": reasons,
        "callers": {"shown": [caller] if caller else [], "more": 0},
    }


def _compile(trace: Trace, event: Mapping[str, Any], detail: Mapping[str, Any], short: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"phases": _phases(trace, event), "graph": _graph(detail)}
    if short:
        return found
    outcome = detail.get("outcome")
    facts = [["outcome", outcome[:40]]] if isinstance(outcome, str) and outcome != "ok" else []
    attempt = _integer(detail.get("attempt"))
    facts += [["attempt", str(attempt + 1)]] if attempt > 0 else []
    facts += _nth(detail) + _texts(detail, ("backend", "backend"), ("trigger", "asked for by"), ("dynamic", "dynamic"))
    caches = detail.get("cache")
    for name, result in list(caches.items())[:8] if isinstance(caches, dict) else []:
        facts.append([f"{_text(name, 60)} cache", _text(result, 60)])
    for key, label in (("graph_ops", "operations in the graph"), ("tracing_ops", "operators while tracing")):
        number = _integer(detail.get(key))
        facts += [[label, f"{number:,}"]] if number >= 0 else []
    failure, inputs = detail.get("failure"), detail.get("inputs")
    guards = _strings(detail.get("guards"), MAX_GUARDS, 1000, _aligned)
    return found | {
        "facts": facts,
        "failure": _pairs(failure, 8) if isinstance(failure, dict) else [],
        "restarts": _strings(detail.get("restart_reasons"), 5, 500)["shown"],
        "callers": _places(detail.get("callers")),
        "inputs": _pairs(inputs, MAX_INPUTS) if isinstance(inputs, dict) else [],
        "guards": guards | {"count": _integer(detail.get("guard_count"))},
    }


def _graph_break(detail: Mapping[str, Any]) -> dict[str, Any]:
    count = _integer(detail.get("count"))
    return {
        "facts": _texts(detail, ("type", "type")) + ([["times", f"{count:,}"]] if count > 1 else []),
        "text": _text(detail.get("reason")),
        "explanation": _text(detail.get("explanation")),
        "hints": _strings(detail.get("hints"), 8, 1000)["shown"],
        "callers": _places(detail.get("callers")),
    }


def _limit(event: Mapping[str, Any], detail: Mapping[str, Any]) -> dict[str, Any]:
    if event["name"] == "recompiles_dropped":
        return {"facts": [["recompilations not kept", f"{max(0, _integer(detail.get('count'))):,}"]], "note":
                "This place was compiled anew so often that the reasons of the later times were not kept."}  # fmt: skip
    limit = _integer(detail.get("limit"))
    return {
        "facts": ([["limit", f"{limit:,}"]] if limit >= 0 else []) + _texts(detail, ("kind", "setting")),
        "note": "Dynamo gave up on this function: it runs without being compiled from here on.",
        "reasons": _reasons(detail),
        "callers": _places(detail.get("callers")),
    }


def _nth(detail: Mapping[str, Any]) -> list[list[str]]:
    nth, limit = _integer(detail.get("nth")), _integer(detail.get("limit"))
    if nth < 1:
        return []
    return [["compilation of this place", f"{nth:,}" + (f", limit {limit:,}" if limit >= 0 else "")]]


def _reasons(detail: Mapping[str, Any]) -> dict[str, Any]:
    entries = detail.get("reasons")
    entries = entries if isinstance(entries, list) else []
    shown = [r for e in entries[:MAX_REASONS] if isinstance(e, dict) and (r := _reason(e))]
    return {"shown": shown, "more": max(0, len(entries) - MAX_REASONS)}


def _reason(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    cause = _text(entry.get("cause"), 40)
    found = {
        "cause": cause.replace("_", " "), "meaning": CAUSES.get(cause, ""), "source": _text(entry.get("source"), 300),
        "dimension": _integer(entry.get("dimension")), "expected": _text(entry.get("expected"), 500),
        "actual": _text(entry.get("actual"), 500), "guard": _aligned(_text(entry.get("guard"))),
        "text": _aligned(_text(entry.get("text"))), "entry": _text(entry.get("entry"), 40), "place": _place(entry),
    }  # fmt: skip
    return found if cause or found["guard"] or found["text"] else None


def _phases(trace: Trace, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Time in each kind of part, without the parts inside it; what no part covers comes last."""
    if event["duration"] < 0:
        return []
    found = trace.sql_arrow(
        'SELECT name, count(*) AS n, sum("self") AS own FROM events WHERE kind = \'compile\' AND lane = ? AND "start" '
        f'BETWEEN ? AND ? AND id <> ? AND "self" >= 0 AND name IN ({", ".join("?" * len(PHASES))}) '
        "GROUP BY name ORDER BY own DESC",
        (event["lane"], event["start"], event["start"] + event["duration"], event["id"], *PHASES),
    ).to_pylist()
    rows = []
    for row in found:
        meaning = PHASES[row["name"]]
        name = row["name"].replace("_", " ")
        rows.append({"name": name, "meaning": meaning, "count": row["n"], "own": int(row["own"])})
    if rows and event["self"] > 0:
        rows.append({"name": "in no part", "meaning": "", "count": 0, "own": event["self"]})
    return rows


def _graph(detail: Mapping[str, Any]) -> dict[str, Any] | None:
    """The graph's operations by the line that made them, in the order of the graph."""
    nodes = detail.get("graph")
    if not isinstance(nodes, list) or not nodes:
        return None
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for node in nodes:
        if not isinstance(node, dict):
            continue
        place = _place(node)
        key = (place["file"], place["line"]) if place else ()
        entry = lines.setdefault(key, {"place": place, "count": 0, "ops": {}})
        entry["count"] += 1
        ops = entry["ops"]
        name = _text(node.get("op"), 100)
        if name in ops or len(ops) < MAX_OPS_OF_LINE:
            ops[name] = ops.get(name, 0) + 1
    shown = [
        {**entry, "ops": [name if n == 1 else f"{name} × {n}" for name, n in entry["ops"].items()]}
        for entry in list(lines.values())[:MAX_LINES]
    ]
    return {
        "lines": shown, "more": max(0, len(lines) - MAX_LINES), "kept": len(nodes),
        "count": _integer(detail.get("graph_ops")), "truncated": detail.get("graph_truncated") is True,
    }  # fmt: skip


def _places(value: Any) -> dict[str, Any]:
    entries = value if isinstance(value, list) else []
    shown = [p for e in entries[:MAX_PLACES] if isinstance(e, dict) and (p := _place(e))]
    return {"shown": shown, "more": max(0, len(entries) - MAX_PLACES)}


def _place(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    file, line = _text(entry.get("file"), 1000), _integer(entry.get("line"))
    return {"file": file, "line": line, "function": _text(entry.get("function"), 200)} if file and line > 0 else None


def _texts(detail: Mapping[str, Any], *names: tuple[str, str]) -> list[list[str]]:
    return [[label, text] for key, label in names if (text := _text(detail.get(key), 200))]


def _pairs(value: Mapping[Any, Any], most: int) -> list[list[str]]:
    def plain(v: Any) -> str:
        return _text(v, 500) if isinstance(v, str) else json.dumps(v)[:500]

    return [[_text(str(k), 100), plain(v)] for k, v in list(value.items())[:most] if v is not None]


def _strings(value: Any, most: int, length: int, change: Callable[[str], str] = str) -> dict[str, Any]:
    entries = [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
    return {"shown": [change(_text(v, length)) for v in entries[:most]], "more": max(0, len(entries) - most)}


def _aligned(text: str) -> str:
    """Torch pads guards to a column that a panel does not have."""
    return re.sub(" {3,}(?=#)", "  ", text)


def _text(value: Any, most: int = MAX_LONG) -> str:
    text = value if isinstance(value, str) else ""
    return text if len(text) <= most else text[: most - 1] + "…"


def _integer(value: Any) -> int:
    return value if type(value) is int and abs(value) < 1 << 53 else -1


def _document(text: str | None) -> dict[str, Any]:
    try:
        document: Any = json.loads(text) if text and len(text) <= MAX_DETAIL else {}
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
