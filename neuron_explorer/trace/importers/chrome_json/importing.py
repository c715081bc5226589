"""One file of JSON → one trace: the three passes, put together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....errors import BadTraceError, OutputError
from ...sniff import printable
from ..report import ImportReport, Progress, Skipped
from .calls import only_calls
from .collect import Collected, collect
from .distinct import distinct
from .document import facts_of, metadata_of, report_of
from .frames import FrameTree
from .kinds import CODE, KINDS, Dialect, Kinds
from .layout import Made, make_layout
from .nested import Nested, nest
from .own import Own
from .reader import give_back
from .rows import RowMaker
from .store import Store
from .texts import Texts
from .tracks import Tracks

__all__ = ["Sources", "import_file"]

_OPTIMIZER: Final = re.compile(r"Optimizer\.step#")
Sources = Callable[[Collected], dict[str, str]]


def import_file(
    path: Path, output: Path, dialect: Dialect, progress: Progress | None = None, *,
    device_type: Callable[[set[str], str], str] = lambda categories, label: "device",
    step_number: Callable[[str], int] = lambda name: -1, sources: Sources = lambda found: {},
    in_memory: int | None = None, beside: tuple[Skipped, ...] = (),
) -> ImportReport:  # fmt: skip
    """Read ``path``, write the trace. Raises ``BadTraceError`` when not one event is in it.

    ``beside``: what was left out beside the file, for its report.
    """
    try:
        store = Store(output.parent) if in_memory is None else Store(output.parent, in_memory)
        try:
            found = collect(path, dialect, store, progress)
            return _write(path, output, found, device_type, step_number, sources, beside)
        finally:
            store.close()
    except OSError as error:
        name = error.filename or path
        if isinstance(name, str) and os.path.abspath(name) != os.path.abspath(path):
            raise OutputError(f"cannot write {printable(output)}: {error.strerror or error}") from error
        raise BadTraceError(f"{printable(path)} cannot be read: {error.strerror or error}.") from None


def _write(
    path: Path, output: Path, found: Collected, device_type: Callable[[set[str], str], str],
    step_number: Callable[[str], int], sources: Sources, beside: tuple[Skipped, ...],
) -> ImportReport:  # fmt: skip
    from ...write import TraceWriter

    texts, store = found.texts, found.store
    kinds = Kinds(texts, found.dialect)
    is_optimizer = _those(texts, _OPTIMIZER)
    nested = nest(store, kinds, is_optimizer, Tracks(found).relabel, calls_alone := only_calls(found))
    found.losses.add("events more than a week from the others", store.outside, store.first_outside)
    if not nested.rows:
        raise BadTraceError(nothing_in(path, found))
    facts = facts_of(found)
    named = facts.own.get("device", {}).get("type")
    known = isinstance(named, str) and named not in ("", "cpu", "unknown") and len(named) < 40
    type_of = (lambda categories, label: str(named)) if known else device_type
    made = make_layout(found, nested, facts.rank, type_of, step_number)
    tree = FrameTree(nested.node_parent, nested.node_name, texts)
    stack_nodes = {n: tree.of_stack(n) for n in sorted(nested.stacks | {0})}
    found.losses.add("Python frames beyond 1,000,000", nested.frames_refused + tree.refused)
    name_nodes = tree.of_names() if found.dialect.names_have_lines else None
    frames = tree.frames()
    maker = RowMaker(nested, frames, stack_nodes, kinds, made.layout, is_optimizer, name_nodes,
                     Own(texts) if facts.own else None)  # fmt: skip
    maker.tally.stacks = len(frames.parent) > 1
    embedded = {frames.shown_files.get(name, name): text for name, text in sources(found).items()}
    with TraceWriter(output, repeating=_repeating(nested.sample)) as writer:
        if len(frames.parent) > 1:
            writer.write_rows(frames.columns())
        if embedded:
            writer.write_rows({"kind": "source", "file": list(embedded), "text": list(embedded.values())})
        for window in nested.windows():
            columns = maker.columns(window)
            columns = _with_steps(columns, made, nested, window) if made.steps.made else columns
            if columns is not None:
                writer.write_rows(columns)
                pa.default_memory_pool().release_unused()
            del columns, window
            if nested.on_disk:
                give_back()
        tally = maker.tally
        if made.steps.made:
            tally.events += len(made.steps.number)
            tally.by_kind[CODE["step"]] += len(made.steps.number)
        if not tally.events:
            raise BadTraceError(nothing_in(path, found))
        found.losses.add("flows", tally.flows)
        found.losses.add("details of events beyond 256 MiB", maker.refused)
        found.losses.add("flow ends without a start, or without an event", tally.flows_open)
        report = report_of(found, nested, tally, output, facts, len(frames.parent) - 1, calls_alone)
        grew = (f"The file grew by {found.source.grew:,} bytes while it was read: it is still being written.",)
        notes = report.notes + (grew if found.source.grew else ())
        report = replace(report, skipped=report.skipped + beside, notes=notes)
        writer.close(metadata_of(found, nested, made, tally, facts, tree, report, len(embedded)))
    return report


def _with_steps(columns: dict[str, Any] | None, made: Made, nested: Nested, window: Any) -> dict[str, Any] | None:
    """The window's rows with the steps that begin in it."""
    from ...device_rows import merged
    from ...write import Coded

    first = int(window.records["start"][0]) if window.first else nested.start
    rest = window.first + len(window.records) >= nested.rows
    last = 1 << 62 if rest else int(window.records["start"][-1])
    steps = made.steps
    here = np.flatnonzero((steps.start >= first) & (steps.start < last))
    if not len(here):
        return columns
    rows = {
        "kind": Coded(np.full(len(here), CODE["step"]), KINDS), "name": [f"step {n}" for n in steps.number[here]],
        "start": steps.start[here] - nested.start, "duration": (steps.end - steps.start)[here],
        "id": nested.rows + here, "lane": np.full(len(here), made.step_lane), "step": steps.number[here],
        "process": np.full(len(here), made.main_process), "thread": np.full(len(here), -1),
        "rank": np.full(len(here), made.layout.rank), "phase": ["other"] * len(here),
        "period": ["steady" if n else "warmup" for n in here],
    }  # fmt: skip
    return merged(rows, columns)


def nothing_in(path: Path, found: Collected) -> str:
    """Why a file holds no trace, in one sentence with the place of the first damage."""
    shown = printable(path)
    source = found.source
    if not source.unpacked:
        reason = f": {source.damage}" if source.damage else ""
        return f"{shown} holds no text at all{reason}."
    parts = []
    if found.first_fault is not None:
        what, offset = found.first_fault
        parts.append(f"{found.losses.counts[what]:,} {what}, the first at byte {offset:,}")
    if source.damage:
        parts.append(f"it ends at byte {source.unpacked:,}: {source.damage}")
    elif not found.complete and found.first_fault is None:
        parts.append(f"it ends at byte {source.unpacked:,}, before the document does")
    for what, number in found.losses.counts.most_common(3):
        if not found.first_fault or what != found.first_fault[0]:
            parts.append(f"{number:,} {what}")
    why = "; ".join(parts) or f"its list of events is empty ({source.unpacked:,} bytes were read)"
    return f"{shown} holds no event that can be used: {why}."


def _repeating(durations: np.ndarray) -> tuple[str, ...]:
    """The columns of times, where few values make up a sample of them: clocks that tick in microseconds."""
    return ("duration", "self") if len(distinct(durations)[0]) * 9 <= len(durations) else ()


def _those(texts: Texts, pattern: re.Pattern[str]) -> np.ndarray:
    """Which texts match."""
    found = np.zeros(len(texts) + 1, bool)
    start = pattern.pattern.split("\\")[0].encode()
    raws = texts.all()
    if start not in b"\n".join(raws):  # sooner said than looking at each
        return found
    for number in [n for n, raw in enumerate(raws) if raw.startswith(start)]:
        found[number] = bool(pattern.match(texts.content(number)))
    return found
