"""Compares a trace with a program's expectations."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from program_expectations import Expectation, Program, name_matches
from trace_rows import Row, Rows

ROOT_MODULE = (None, "")
"""How the module column may write a model itself, beside its class name."""


def disagreements(program: Program, trace: Rows, recorder: str) -> list[str]:
    """Sentences on every expectation that the trace does not meet; empty when all are met."""
    native = recorder == "native"
    out = []
    placed: dict[tuple[str, int], list[Row]] = {}
    for row in trace.events:
        if row["file"] is not None:
            placed.setdefault((Path(row["file"]).name, row["line"]), []).append(row)
    for e in program.expectations:
        if (e.only and e.only != recorder) or e.names == ("maybe",):
            continue
        if not native and (e.kind != "op" or not _twin_claims(e)):
            continue
        out += _missing(e, placed.get((e.file, e.line), []), trace, native)
    if "lenient" not in program.options:
        out += _strangers(program, placed)
    if "tracing" in program.options and trace.metadata["counts"]["tracing_ops"] <= 0:
        out.append("no op is counted as run by a tracer")
    if native and "steps" in program.options:
        rule, _, count = program.options["steps"].rpartition(":")
        said = trace.metadata["steps"]
        if (said["rule"], said["count"]) != (rule, int(count)):
            out.append(f"steps: {said['rule']} {said['count']}, not {rule} {count}")
    return out


def _twin_claims(e: Expectation) -> bool:
    """The twin sees operators of the thread and process that started it (its capabilities say so)."""
    return e.fields.get("thread") != "other" and e.fields.get("process") != "child"


def _missing(e: Expectation, here: list[Row], trace: Rows, native: bool) -> list[str]:
    out = []
    named = [r for r in here if r["kind"] == e.kind and any(name_matches(w, r["name"]) for w in e.names)]
    if "any" in e.names and e.kind == "op":
        named = [r for r in here if r["kind"] in ("op", "autograd", "launch")]
    if "phase" not in e.fields and e.kind == "op" and "any" not in e.names:
        named = [r for r in named if r["phase"] not in ("backward", "recompute")]
    wanted = [r for r in named if all(_agrees(r, k, v, trace) for k, v in e.fields.items())]
    outer = _outermost(wanted, trace)
    if not outer:
        near = Counter((r["name"], *(str(_value(r, k, trace)) for k in e.fields)) for r in named or here)
        out.append(f"{e}: not there; there is {dict(near.most_common(8))}")
    elif e.count is not None and len(outer) != e.count:
        out.append(f"{e}: {len(outer)} times, not {e.count}")
    if e.backward and (native or trace.capability("backward_lines")):
        nodes = [r for r in here if r["kind"] == "autograd" and r["phase"] == "backward"]
        for name, n in Counter(e.backward).items():
            found = _outermost([r for r in nodes if name_matches(name, r["name"])], trace)
            if len(found) < n:
                all_there = [
                    f"{r['name']} at {r['file']}:{r['line']} ({r['attribution']}, {r['phase']})"
                    for r in trace.events
                    if r["kind"] == "autograd" and name_matches(name, r["name"])
                ]
                out.append(f"{e}: backward {name} {len(found)} times, not {n}; anywhere: {all_there}")
    return out


def _outermost(rows: list[Row], trace: Rows) -> list[Row]:
    ids = {r["id"] for r in rows}
    return [r for r in rows if not any(a["id"] in ids for a in trace.ancestors(r))]


def _value(row: Row, key: str, trace: Rows) -> object:
    if key == "process":
        return "main" if row["process"] == trace.main_lane["process"] else "child"
    if key == "thread":
        return "main" if row["lane"] == trace.main_lane["lane"] else "other"
    return row[key]


def _agrees(row: Row, key: str, value: str, trace: Rows) -> bool:
    actual = _value(row, key, trace)
    if key == "module":
        if not trace.capability("modules"):
            return True
        if value == "-":
            return actual is None
        if value == "<root>":
            return actual in ROOT_MODULE or re.fullmatch(r"[A-Z]\w*", str(actual)) is not None
        return actual == value
    if key == "function" and sys.version_info < (3, 11):  # code objects have no qualified name there
        return actual == value.rpartition(".")[2]
    return actual == value


def _strangers(program: Program, placed: dict[tuple[str, int], list[Row]]) -> list[str]:
    """Rows on lines where nothing runs, and rows that a file outside the program claims."""
    out = []
    for (file, line), rows in sorted(placed.items()):
        rows = [r for r in rows if r["kind"] in ("op", "autograd", "launch")]
        if not rows or (file, line) in program.lines:
            continue
        names = sorted({r["name"] for r in rows})[:6]
        if file in program.files:
            out.append(f"{file}:{line} should run nothing, but has {names}")
        elif any(r["attribution"] != "library_frame" for r in rows):
            out.append(f"{rows[0]['file']}:{line} is no line of the program, but has {names}")
    return out
