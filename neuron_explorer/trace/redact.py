"""A copy of a trace that discloses less."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..errors import OutputError
from .collective_redact import anonymous_run, redacted_collective
from .compile_redact import COMPILE_KINDS, NAMES, redacted_detail
from .metadata import default_metadata
from .sniff import printable
from .store import Trace, load
from .text import TextTable
from .write import Coded, TraceWriter

__all__ = ["redact"]

Rule = Callable[[str], "str | None"]

_TORCH_RANGES: Final = ("Optimizer.", "enumerate(DataLoader)", "Torch-Compiled Region", "TorchDynamo")


def redact(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    source: bool = True,
    paths: bool = True,
    arguments: bool = True,
    names: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write a copy of the trace at ``path`` to ``output``.

    Each flag removes something when true: ``source`` the text of source files; ``paths`` the
    directories of the user's files (they keep their last part, made distinct) and whatever in
    the metadata names a path; ``arguments`` the values of operator arguments and the details of
    events (of compilations those that quote values or source; classes, counts and places stay);
    ``names`` the names of annotations, threads, process groups and of the machine, which may be anything. What
    is removed is gone: the copy's dictionaries hold only what its rows show.

    Raises ``BadTraceError`` for a bad trace, ``OutputError`` for a bad output.
    """
    target = Path(output)
    if target.exists() and not overwrite:
        raise OutputError(f"{printable(target)} exists; use --force to overwrite it.")
    with load(path) as trace:
        shorten = _Shortener(_library_files(trace)) if paths else None
        rules: dict[str, Rule] = {}
        if shorten is not None:
            rules["file"] = shorten
        if arguments:
            rules["arguments"] = _nothing
        if names:
            rules["name"] = _hidden_ranges(trace)
        with TraceWriter(target) as writer:
            for table in trace.groups():
                if source:
                    table = _without_sources(table)
                if table.num_rows:
                    columns = {n: _column(table[n], rules.get(n)) for n in table.column_names}
                    columns["detail"] = _details(
                        table, arguments=arguments, names=names, source=source, shorten=shorten
                    )
                    writer.write_rows(columns)
            writer.close(_document(trace.metadata, source, shorten, arguments, names))
    return target


def _nothing(_: str) -> None:
    return None


def _details(
    table: pa.Table, *, arguments: bool, names: bool, source: bool, shorten: _Shortener | None
) -> Coded:
    """The details: those of compilations and collectives in parts, others whole or not at all."""
    kinds, details = _coded(table["kind"]), _coded(table["detail"])
    of_compiles = np.array([v in COMPILE_KINDS for v in [*kinds.values, None]])[kinds.codes]
    of_collectives = np.array([v == "collective" for v in [*kinds.values, None]])[kinds.codes]
    codes = np.full(table.num_rows, -1, np.int32)
    texts = TextTable()
    for compiles in (False, True):
        rows = np.flatnonzero((of_compiles == compiles) & (details.codes >= 0))
        if not compiles and (arguments or names):
            together = rows[of_collectives[rows]]
            for code in np.unique(details.codes[together]).tolist():
                text = redacted_collective(details.values[code], arguments=arguments, names=names)
                codes[together[details.codes[together] == code]] = texts.code(text)
            rows = rows[:0] if arguments else rows[~of_collectives[rows]]
        for code in np.unique(details.codes[rows]).tolist():
            text = details.values[code]
            if compiles and text is not None:
                text = redacted_detail(text, arguments=arguments, source=source, shorten=shorten)
            elif text is not None and shorten is not None:
                text = _with_short_kernel(text, shorten)
            codes[rows[details.codes[rows] == code]] = texts.code(text)
    return texts.column(codes)


def _with_short_kernel(text: str, shorten: _Shortener) -> str:
    """A detail with the file of a custom operator's kernel shortened."""
    try:
        document = json.loads(text) if '"kernel"' in text else None
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict):
        return text
    kernel = document.get("kernel")
    if not isinstance(kernel, dict) or not isinstance(kernel.get("file"), str):
        return text
    return json.dumps({**document, "kernel": {**kernel, "file": shorten(kernel["file"])}})


def _library_files(trace: Trace) -> set[str]:
    """Files that no user frame lies in: paths inside installed packages, the same everywhere."""
    user: set[str] = set()
    other: set[str] = set()
    for table in trace.groups():
        kinds, files, how = (_coded(table[n]) for n in ("kind", "file", "attribution"))
        frame = np.array([v == "frame" for v in [*kinds.values, None]])[kinds.codes]
        mine = np.array([v == "stack" for v in [*how.values, None]])[how.codes]
        used = np.array([*files.values, None], object)[files.codes]
        user.update(v for v in np.unique(used[~frame | mine].astype(str)).tolist())
        other.update(v for v in np.unique(used[frame & ~mine].astype(str)).tolist())
    relative = {f for f in other - user if not re.match(r"[/\\~]|[A-Za-z]:[/\\]", f)}
    return relative


class _Shortener:
    """File names without directories; two files never share one."""

    def __init__(self, kept: set[str]) -> None:
        self._shown = {file: file for file in kept}
        self._taken: dict[str, int] = {}

    def __call__(self, file: str) -> str:
        known = self._shown.get(file)
        if known is None:
            base = file if file.startswith("<") else re.split(r"[/\\]", file)[-1]
            count = self._taken[base] = self._taken.get(base, 0) + 1
            known = self._shown[file] = base if count == 1 else f"{base} ({count})"
        return known

    def inside(self, text: str) -> str:
        """``text`` with every file that was shortened replaced."""
        for file, shown in sorted(self._shown.items(), key=lambda i: -len(i[0])):
            text = text.replace(file, shown)
        return text


def _hidden_ranges(trace: Trace) -> Rule:
    ranges = {n for n in trace.read(["name"], kinds=["range", "warning"])["name"].unique().to_pylist() if n}
    hidden = sorted(n for n in ranges - NAMES if not n.startswith(_TORCH_RANGES) and not n.endswith("(dynamo_timed)"))
    table = {name: f"range {number}" for number, name in enumerate(hidden, 1)}
    return lambda name: table.get(name, name)


def _without_sources(table: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.not_equal(table["kind"].cast(pa.string()), "source"))


def _column(column: pa.ChunkedArray, rule: Rule | None) -> Any:
    if not pa.types.is_dictionary(column.type):
        return column.combine_chunks()
    coded = _coded(column)
    texts = TextTable()
    new = texts.codes([*(v if rule is None else rule(v) for v in coded.values), None])
    return texts.column(new[coded.codes])


def _coded(column: pa.ChunkedArray) -> Coded:
    array = column.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # a column without chunks
        return Coded(np.zeros(0, np.int32), [])
    return Coded(array.indices.fill_null(-1).to_numpy(), array.dictionary.to_pylist())


def _document(
    metadata: Mapping[str, Any], source: bool, shorten: _Shortener | None, arguments: bool, names: bool
) -> dict[str, Any]:
    """The metadata without what the rows no longer show, and without entries that are not known."""
    document = {k: v for k, v in metadata.items() if k in default_metadata()}
    discloses = dict(document["discloses"])
    if source:
        discloses["source"] = "none"
    if arguments:
        discloses["arguments"] = discloses["compilations"] = False
    if names:
        document["distributed"] = anonymous_run(document["distributed"])
        discloses["host"] = False
        document["lanes"] = [_anonymous(lane) for lane in document["lanes"] if isinstance(lane, dict)]
    if shorten is not None:
        discloses["paths"] = "none"
        script = document.get("script")
        document["script"] = re.split(r"[/\\]", script)[-1] if isinstance(script, str) else None
        document["recorder_reason"] = ""
        document["settings"] = {k: v for k, v in document["settings"].items() if k != "user_code"}
        steps = document["steps"]
        document["steps"] = steps | {"rule_text": shorten.inside(str(steps.get("rule_text", "")))}
    document["discloses"] = discloses
    return document


def _anonymous(lane: Mapping[str, Any]) -> dict[str, Any]:
    kind = lane.get("kind")
    name = f"thread {lane.get('thread')}" if kind == "thread" else str(kind)
    known = lane.get("name") in ("main thread", "steps", "counters")
    return {**lane, "name": lane["name"] if known else name, "os_thread": -1}
