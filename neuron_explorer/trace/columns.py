"""Rows of a window as the columns of the trace."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import schema, spool
from .arrays import distinct
from .attribution import ATTRIBUTIONS, PHASES, Origins
from .collective_rows import CollectiveRows
from .device_work import DeviceWork, device_work
from .lookups import DATA_WAIT, DYNAMO, ENGINE, LAUNCH, Lookups
from .memory_rows import block_numbers
from .memory_rows import details as memory_details
from .rows import Rows
from .steps import steps_at
from .tensors import inputs_of
from .write import Coded

if TYPE_CHECKING:
    from .convert import Recording

KINDS: Final = tuple(schema.KINDS)
_CODE: Final = {kind: code for code, kind in enumerate(KINDS)}
_KIND_OF_RECORD: Final = np.array(
    [_CODE[k] for k in ("warning", "op", "autograd", "range", "step", "gc", "data_wait", "sync", "launch",
                        "counter", "warning", "range", "range", "range", "memory")]
)  # fmt: skip
_TIMED: Final = np.array([k in ("op", "autograd", "launch", "copy", "sync", "collective", "fallback") for k in KINDS])


@dataclass
class Tally:
    """What was counted while the rows were written."""

    events: int = 0
    unended: int = 0
    quarantined: int = 0
    by_kind: np.ndarray = field(default_factory=lambda: np.zeros(len(KINDS), np.int64))
    events_by_attribution: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    self_by_attribution: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    time_with_line: int = 0
    counter_processes: set[int] = field(default_factory=set)

    def add(self, columns: dict[str, Any] | None) -> None:
        """Count rows that come from elsewhere."""
        if columns is not None:
            self.by_kind += np.bincount(columns["kind"].codes, minlength=len(KINDS))
            self.events += len(columns["start"])


def frame_columns(lookups: Lookups) -> dict[str, Any]:
    """The calling-context tree. ``attribution`` tells user frames ("stack") from libraries'."""
    frames = lookups.frames
    number = np.arange(1, len(frames), dtype=np.int64)
    library = frames.library_of[1:] == number
    how = np.where(frames.user[1:], ATTRIBUTIONS.index("stack"), -1)
    how = np.where(~frames.user[1:] & library, ATTRIBUTIONS.index("library_frame"), how)
    parent = frames.parent[1:].astype(np.int64)
    return {
        "kind": "frame",
        "id": number,
        "parent": np.where(parent > 0, parent, -1),
        "file": lookups.files.column(frames.file[1:]),
        "line": frames.line[1:],
        "function": lookups.functions.column(frames.function[1:]),
        "attribution": Coded(how, ATTRIBUTIONS),
    }


@dataclass(frozen=True)
class StepRows:
    """The steps that begin in a window, of all processes."""

    start: np.ndarray
    duration: np.ndarray
    number: np.ndarray
    period: np.ndarray
    process: np.ndarray  # position
    id: np.ndarray


def step_rows(recording: Recording, low: int, high: int) -> StepRows | None:
    """Steps whose start lies in [low, high); None when there are none."""
    parts = []
    base = recording.events
    for position, steps in enumerate(recording.steps):
        inside = np.flatnonzero((steps.start >= low) & (steps.start < high))
        if len(inside):
            start = steps.start[inside]
            parts.append((start, steps.end[inside] - start, steps.number[inside], steps.period[inside],
                          np.full(len(inside), position), base + inside))  # fmt: skip
        base += len(steps)
    return StepRows(*(np.concatenate(c) for c in zip(*parts, strict=True))) if parts else None


def event_columns(
    recording: Recording, rows: Rows, origins: Origins | None, steps: StepRows | None, tally: Tally
) -> dict[str, Any]:
    """All columns of a window's events and steps, sorted by start; counts them in ``tally``."""
    picked = np.flatnonzero(rows.own & (rows.kind != spool.STEP)) if len(rows) else np.zeros(0, np.int64)
    head = steps or StepRows(*(np.zeros(0, np.int64),) * 6)
    start = np.concatenate([head.start, rows.start[picked]]) - recording.start_ns
    # Stable: a step comes before what it holds, and an event before the events inside it.
    order = np.argsort(start, kind="stable") if len(head.start) or np.any(np.diff(start) < 0) else None
    values = _plain(recording, rows, picked, origins, tally)
    of_steps = _step_values(recording, head)
    columns: dict[str, Any] = {"start": _ordered(np.maximum(start, 0), order)}
    for name, (codes, table) in values.items():
        first = of_steps.get(name)
        if first is None:
            first = np.full(len(head.start), -1, codes.dtype if codes.dtype.kind == "i" else np.int64)
        merged = _ordered(np.concatenate([first, codes]) if len(first) else codes, order)
        if table is None:
            columns[name] = merged
        elif isinstance(table, tuple):
            columns[name] = Coded(merged, table)
        else:
            columns[name] = table.column(merged)
    _name_steps(columns, order, head, values["name"][1])
    tally.by_kind += np.bincount(columns["kind"].codes, minlength=len(KINDS))
    tally.events += len(start)
    return columns


def _ordered(values: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return values if order is None else values[order]


def _plain(
    recording: Recording, rows: Rows, picked: np.ndarray, origins: Origins | None, tally: Tally
) -> dict[str, tuple[np.ndarray, Any]]:
    """(values or codes, table of texts) per column, in the order of ``picked``."""
    lookups = recording.lookups
    if origins is None or not len(picked):
        none = np.zeros(0, np.int64)
        tables = {"kind": KINDS, "name": lookups.names, "phase": PHASES, "period": schema.PERIODS}
        return {n: (none, tables.get(n)) for n in ("kind", "name", "duration", "self", "id", "depth", "lane",
                                                  "rank", "process", "thread", "step", "period", "phase",
                                                  "outermost_on_line")}  # fmt: skip
    take = (lambda a: a) if len(picked) == len(rows) else (lambda a: a[picked])
    threads = recording.threads
    thread = take(rows.thread)
    lane = np.array([t.lane for t in threads], np.int32)[thread]
    process = np.array([t.process for t in threads])[thread]
    base = np.array([t.id_base for t in threads])[thread]
    record_kind = take(rows.kind)
    kind = _kinds(rows, lookups, picked)
    work = device_work(rows, threads, lookups, picked, record_kind, _CODE)
    kind[work.row] = work.kind
    name, signature = take(rows.name), take(rows.signature)
    of_groups = recording.collectives.find(rows, picked) if recording.collectives is not None else CollectiveRows()
    met = np.array(of_groups.row, np.int64)
    kind[met] = [_CODE[k] for k in of_groups.kind]
    if len(work.named):
        name, signature = name.copy(), signature.copy()
        name[work.named] = rows.name[work.after]
        signature[work.named] = rows.signature[work.after]
    duration, own = _times(recording, rows, picked, tally)
    correlation = _correlations(recording, kind, take(origins.forward_id), process, name, take(rows.start))
    blocks = np.flatnonzero(kind == _CODE["memory"])
    if len(blocks):
        numbers = block_numbers(lookups.name[name[blocks]], lookups.names.values, rows.self_[picked[blocks]])
        correlation = correlation.copy()
        correlation[blocks] = numbers
    counters = kind == _CODE["counter"]
    if counters.any():
        tally.counter_processes.update(distinct(process[counters]).tolist())
        lane = np.where(counters, recording.counter_lanes[process], lane)
    texts = lookups.name[name]
    parent = np.where(take(rows.parent) >= 0, base + take(rows.parent_index), -1)
    thread_number = np.array([t.scan.file.sequence for t in threads], np.int32)[thread]
    flights = np.zeros(len(picked), bool)
    if len(met):
        correlation = correlation.copy()
        correlation[met] = of_groups.correlation
        renamed = np.array(of_groups.name, texts.dtype)
        texts[met[renamed >= 0]] = renamed[renamed >= 0]
        moved = np.array(of_groups.lane, np.int32)
        lane = lane.copy()
        lane[met[moved >= 0]] = moved[moved >= 0]
        flights[met[moved >= 0]] = True
        parent[flights] = thread_number[flights] = -1
    depth = np.where(counters | flights, 0, np.minimum(take(rows.depth), 32767)).astype(np.int16)
    step, period = steps_at(recording, process, take(rows.start))
    frame = take(origins.line_frame)
    frames = lookups.frames
    line = frames.line[frame]
    attribution = take(origins.attribution)
    _count_attribution(tally, kind, own, attribution, frame)
    stack, seq = take(origins.stack), take(rows.seq)
    numbered = (record_kind == spool.AUTOGRAD) | ((record_kind == spool.OP) & (take(rows.aux) > 0))
    if len(met):
        numbered[met] = False
    details, detail_texts = _details(recording, rows, picked, kind, name, signature, work, of_groups)
    values: dict[str, tuple[np.ndarray, Any]] = {
        "kind": (kind, KINDS),
        "name": (texts, lookups.names),
        "duration": (duration, None),
        "self": (own, None),
        "id": (base + take(rows.index), None),
        "parent": (parent, None),
        "depth": (depth, None),
        "lane": (lane, None),
        "rank": (np.full(len(picked), recording.rank, np.int32), None),
        "process": (recording.pids[process], None),
        "thread": (thread_number, None),
        "stack": (np.where(stack > 0, stack, -1), None),
        "file": (frames.file[frame], lookups.files),
        "line": (line, None),
        "function": (frames.function[frame], lookups.functions),
        "attribution": (attribution, ATTRIBUTIONS),
        "outermost_on_line": (take(origins.outermost), None),
        "module": (lookups.module[take(origins.module)], lookups.modules),
        "phase": (take(origins.phase), PHASES),
        "period": (period, schema.PERIODS),
        "step": (step, None),
        "sequence": (np.where(numbered & (seq >= 0), seq, -1), None),
        "correlation": (correlation, None),
        "compile_id": (np.where(kind == _CODE["launch"], lookups.compile_id[name], -1), lookups.compile_ids),
        "detail": (details, tuple(detail_texts)),
    }
    for column, codes in lookups.signature.items():
        values[column] = (codes[signature], lookups.signature_texts[column])
    return values


def _correlations(
    recording: Recording, kind: np.ndarray, forward: np.ndarray, process: np.ndarray, name: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The forward operator of a backward node; the compilation of what a launch runs."""
    launches = np.flatnonzero(kind == _CODE["launch"])
    if recording.compiles is None or not len(launches):
        return forward
    lookups, found = recording.lookups, forward.copy()
    keys = process[launches].astype(np.int64) << 32 | lookups.compile_id[name[launches]]
    for key in distinct(keys).tolist():
        mine, code = launches[keys == key], key & 0xFFFFFFFF
        if code < len(lookups.compile_ids.values):
            compile_id = lookups.compile_ids.values[code]
            found[mine] = recording.compiles.launched(key >> 32, compile_id, start[mine])
    return found


def _kinds(rows: Rows, lookups: Lookups, picked: np.ndarray) -> np.ndarray:
    record = rows.kind[picked]
    kind = _KIND_OF_RECORD[np.where(record < len(_KIND_OF_RECORD), record, 0)]
    traits = lookups.traits[rows.name[picked]]
    ranges, ops = record == spool.RANGE, record == spool.OP
    marked = np.flatnonzero((ranges | ops) & ((traits & (LAUNCH | DATA_WAIT | ENGINE | DYNAMO)) != 0))
    for trait, name in ((LAUNCH, "launch"), (DATA_WAIT, "data_wait"), (ENGINE, "autograd"), (DYNAMO, "range")):
        kind[marked[(traits[marked] & trait) != 0]] = _CODE[name]
    return kind


def _times(recording: Recording, rows: Rows, picked: np.ndarray, tally: Tally) -> tuple[np.ndarray, np.ndarray]:
    """Duration and self time; -1 where they are unknown or cannot be true."""
    start, end, own = rows.start[picked], rows.end[picked], rows.self_[picked].copy()
    own[rows.kind[picked] == spool.MEMORY] = 0  # the field holds the number of a block
    unended = end == 0
    impossible = rows.bad_start[picked] | (~unended & ((end < start) | ~recording.bounds.mask(end)))
    duration = end - start
    duration[unended | impossible] = -1
    # Children that overlap (asynchronous ranges) may last longer than what encloses them.
    np.maximum(own, 0, out=own)
    false_self = (duration >= 0) & (own > duration)
    own[false_self | (duration < 0)] = -1
    tally.unended += int((unended & ~impossible).sum())
    tally.quarantined += int((impossible | false_self).sum())
    return duration, own


def _step_values(recording: Recording, head: StepRows) -> dict[str, np.ndarray]:
    count = len(head.start)
    return {
        "kind": np.full(count, _CODE["step"]),
        "duration": head.duration,
        "id": head.id,
        "depth": np.zeros(count, np.int16),
        "lane": recording.step_lanes[head.process] if count else head.process,
        "rank": np.full(count, recording.rank, np.int32),
        "process": recording.pids[head.process] if count else head.process,
        "step": head.number,
        "period": head.period,
        "phase": np.full(count, PHASES.index("other")),
        "outermost_on_line": np.ones(count, bool),
    }


def _name_steps(columns: dict[str, Any], order: np.ndarray | None, head: StepRows, names: Any) -> None:
    """Steps are named by their number, in the dictionary of this window only."""
    count = len(head.start)
    if not count:
        return
    coded: Coded = columns["name"]
    where = np.arange(count) if order is None else np.flatnonzero(order < count)
    source = where if order is None else order[where]
    codes = coded.codes.copy()
    codes[where] = len(coded.values) + source
    columns["name"] = Coded(codes, [*coded.values, *(f"step {n}" for n in head.number.tolist())])


def _details(
    recording: Recording, rows: Rows, picked: np.ndarray, kind: np.ndarray, name: np.ndarray, signature: np.ndarray,
    work: DeviceWork, of_groups: CollectiveRows,
) -> tuple[np.ndarray, list[str]]:  # fmt: skip
    codes = np.full(len(picked), -1, np.int32)
    table: dict[str, int] = {}
    for row in np.flatnonzero((kind == _CODE["gc"]) | (kind == _CODE["counter"])).tolist():
        value, aux = int(rows.seq[picked[row]]), int(rows.aux[picked[row]])
        facts = {"value": value} if kind[row] == _CODE["counter"] else {"generation": aux, "collected": value}
        codes[row] = table.setdefault(json.dumps(facts), len(table))
    for row, document in zip(work.row.tolist(), work.detail, strict=True):
        if document:
            codes[row] = table.setdefault(document, len(table))
    for row, document in zip(of_groups.row, of_groups.detail, strict=True):
        codes[row] = table.setdefault(document, len(table))
    texts = list(table)

    def add(row: int, document: str) -> None:
        if codes[row] >= 0:
            document = json.dumps(json.loads(texts[codes[row]]) | json.loads(document))
        codes[row] = table.setdefault(document, len(table))
        if codes[row] == len(texts):
            texts.append(document)

    blocks = np.flatnonzero(kind == _CODE["memory"])
    if len(blocks):
        at, words = picked[blocks], recording.lookups.name[name[blocks]]
        known = recording.lookups.names.values
        code, documents = memory_details(words, known, rows.seq[at], rows.self_[at], rows.aux[at])
        codes[blocks] = np.array([table.setdefault(document, len(table)) for document in documents], np.int32)[code]
        texts = list(table)
    if recording.kernels is not None:
        fell_back = kind == _CODE["fallback"]
        for row, document in recording.kernels.details(name, signature, (kind == _CODE["op"]) | fell_back, fell_back):
            add(row, document)
    if recording.with_tensors:
        thread, index = rows.thread[picked], rows.index[picked]
        for position in distinct(thread).tolist():
            mine = np.flatnonzero(thread == position)
            path = recording.threads[position].scan.file.path
            inputs = inputs_of(path, int(index[mine].min()), int(index[mine].max()) + 1)
            for row, record in zip(mine.tolist(), index[mine].tolist(), strict=True):
                described = inputs.get(record)
                if described is not None:
                    add(row, described)
    return codes, texts


def _count_attribution(
    tally: Tally, kind: np.ndarray, own: np.ndarray, attribution: np.ndarray, frame: np.ndarray
) -> None:
    timed = np.flatnonzero(_TIMED[kind])
    how, time = attribution[timed], np.maximum(own[timed], 0)
    tally.events_by_attribution += np.bincount(how, minlength=len(ATTRIBUTIONS))
    for code in np.flatnonzero(np.bincount(how)).tolist():
        tally.self_by_attribution[code] += int(time[how == code].sum())
    tally.time_with_line += int(time[frame[timed] > 0].sum())
