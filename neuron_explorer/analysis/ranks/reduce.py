"""One rank's trace to its facts: bounded whatever its length, and all that the questions about a run need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis import activity as a
from neuron_explorer.analysis import intervals as iv
from neuron_explorer.analysis.breakdown import PARTS, Layer, layers_of, windows_of
from neuron_explorer.analysis.filters import NO_FILTER
from neuron_explorer.analysis.intervals import FAR, Intervals
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.ranks.collective_rows import Collectives, collectives
from neuron_explorer.analysis.ranks.facts import (
    GROUP_TIME_COLUMNS,
    LINE_COLUMNS,
    MEMORY_COLUMNS,
    NOT_SEEN,
    PERIOD_CODES,
    STEP_COLUMNS,
    Columns,
    RankFacts,
)
from neuron_explorer.analysis.ranks.packing import text_codes
from neuron_explorer.analysis.ranks.process_groups import Groups
from neuron_explorer.analysis.ranks.rank_compiles import Compiled, compiled
from neuron_explorer.analysis.ranks.reading import Reading, read_rank
from neuron_explorer.analysis.scope import Scope
from neuron_explorer.analysis.selection import Selection, main_processes, time_kind

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_STEPS: Final = 8_192
"""Steps that are kept of a rank; of more, every second, fourth …, by number."""
STEPS_OF_RUN, LEAST_STEPS = 1 << 22, 256
"""Steps of all ranks together, as of collectives."""
MOST_LINES: Final = 512
"""Lines with most self time that are kept, beside those of collectives."""
_MOST_PAIRS: Final = 512


def reduce_rank(trace: Trace) -> RankFacts:
    """The facts of a trace, of the rank that its metadata names. Raises ``BadTraceError`` where it is damaged."""
    metadata = trace.metadata
    mains = main_processes(trace)
    lane_rank = metadata["rank"] if metadata["rank"] in mains else next(iter(mains))
    process = mains[lane_rank]
    table = a.lane_table(trace)
    mine = [lane for lane in table if lane.rank == lane_rank]
    threads = [x for x in mine if x.kind == "thread" and (process is None or x.process == process)]
    read = read_rank(trace, process, frozenset(x.lane for x in threads))
    streams = tuple(x for x in mine if x.kind == "device" and x.lane in read.busy_devices)
    device = a.activity(trace, [x.lane for x in streams], device=True) if streams else {}
    work = device.get(a.WORK, iv.NONE)
    hosts = a.activity(trace, [x.lane for x in threads if x.lane in read.busy_hosts])
    idle = iv.complement(iv.union(*hosts.values()), 0, min(max(0, metadata["duration_ns"]), FAR))
    texts: dict[str, int] = {}
    groups = Groups(metadata)
    found = collectives(
        read.collectives, read.waits, frozenset(x.lane for x in threads), frozenset(x.lane for x in streams), work,
        idle, groups, texts, metadata["world_size"],
    )  # fmt: skip
    scope, selection = _scope(trace, read, lane_rank, process, threads, streams)
    alone = iv.subtract(iv.union(found.on_host, device.get(a.COLLECTIVE, iv.NONE)), work)
    layers, _ = layers_of(trace, selection, scope)
    windows = windows_of([Layer("collectives_exposed", alone), *layers], scope)
    compiles = compiled(trace, texts) if read.kinds & {"compile", "recompile"} else Compiled.none()
    steady = any(w.period == "steady" for w in windows)
    counted = [w for w in windows if w.period == "steady"] if steady else [w for w in windows if w.step >= 0]
    spans = counted or windows
    stride, steps = _steps(windows, compiles.starts, metadata["world_size"])
    lines, small = _lines(read, found, bool(streams), steady, texts)
    return RankFacts(
        rank=max(0, metadata["rank"]),
        path=Path(trace.path).name,
        steps_rule=plain(str(metadata["steps"].get("rule_text") or ""), 200),
        counted_steps=sum(w.step >= 0 for w in spans),
        counted_ns=sum(w.total_ns for w in spans),
        steady=steady,
        compiles_observed=_observed(metadata, "compile") or bool(read.kinds & {"compile", "recompile"}),
        memory_observed="memory" in read.kinds,
        collectives_observed=_observed(metadata, "collectives") or found.number > 0,
        events=read.events,
        all_steps=sum(w.step >= 0 for w in windows),
        all_collectives=found.number,
        stride=found.stride,
        step_stride=stride,
        groups=tuple(groups.groups),
        backend=groups.backend,
        tables={
            "steps": steps,
            "collectives": small,
            "lines": lines,
            "group_times": _group_times(found.every, spans, work),
            "compiles": compiles.columns,
            "memory": _memory(trace, texts) if "memory" in read.kinds else _empty(MEMORY_COLUMNS),
        },
        texts=tuple(texts),
        notes=tuple(_notes(read, metadata)),
        **_about(metadata),
    )  # fmt: skip


def _about(metadata: Mapping[str, Any]) -> dict[str, Any]:
    said = metadata.get("distributed")
    about = said if isinstance(said, dict) else {}
    attempt = about.get("attempt")
    return {
        "world_size": max(1, metadata["world_size"], metadata["rank"] + 1),
        "attempt": attempt if type(attempt) is int and 0 <= attempt < 1 << 31 else 0,
        "run_id": _text(about.get("run_id")),
        "host": _text(about.get("host")),
        "torch": _text(metadata["versions"].get("torch")),
        "device": _text(metadata["device"].get("type")) or "cpu",
        "emulated": metadata["device"].get("emulated") is True,
        "chip": _text(metadata["device"].get("name")) if metadata["device"].get("type") == "neuron" else "",
        "start_unix_ns": metadata["start_unix_ns"],
        "duration_ns": max(0, metadata["duration_ns"]),
        "finished": metadata["finished"],
        "recovered": metadata["recovered"],
    }


def _text(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else ""


def _observed(metadata: Mapping[str, Any], capability: str) -> bool:
    entry = metadata["capabilities"].get(capability)
    return isinstance(entry, dict) and entry.get("observed") is True


def _scope(
    trace: Trace, read: Reading, rank: int, process: int | None, threads: list[a.Lane], streams: tuple[a.Lane, ...]
) -> tuple[Scope, Selection]:
    """Every step of the rank, whatever its period; the whole run where there is none."""
    hosts = [x for x in threads if x.lane in read.busy_hosts]
    main = next((x for x in hosts if x.name in ("main thread", "MainThread")), hosts[0] if hosts else None)
    steps = sorted({s[0]: s for s in read.steps if s[1] < FAR and s[2] < FAR}.values(), key=lambda s: s[1])
    if steps:
        low = np.array([s[1] for s in steps], np.int64)
        high = low + np.array([s[2] for s in steps], np.int64)
    else:
        low, high = np.zeros(1, np.int64), np.array([min(max(0, trace.metadata["duration_ns"]), FAR)], np.int64)
        steps = [(-1, 0, 0, "")]
    selection = Selection(
        "all", "TRUE", len(read.steps), int((high - low).sum()), "", "", process, None if main is None else main.lane,
        tuple(x.lane for x in hosts), (), time_kind(trace.metadata), places=((rank, process),),
    )  # fmt: skip
    scope = Scope(
        rank, -1 if process is None else process, main, tuple(x for x in hosts if x is not main), streams,
        tuple(s[0] for s in steps), tuple(s[3] for s in steps), low, high,
    )  # fmt: skip
    return scope, selection


def _steps(windows: list[Any], compiles: np.ndarray, world_size: int) -> tuple[int, Columns]:
    stride, most = 1, min(MOST_STEPS, max(LEAST_STEPS, STEPS_OF_RUN // max(world_size, 1)))
    while sum(w.step % stride == 0 for w in windows) > most and stride < 1 << 30:
        stride *= 2
    kept = [w for w in windows if w.step < 0 or w.step % stride == 0][:most]
    rows = [(w.step, PERIOD_CODES.get(w.period, -1), w.start, w.total_ns, *w.ns) for w in kept]
    values = np.array(rows, np.int64).reshape(-1, 4 + len(PARTS))
    columns = {name: values[:, at].copy() for at, name in enumerate(STEP_COLUMNS[:-1])}
    starts = np.sort(compiles)
    low, high = columns["start"], columns["start"] + columns["total"]
    columns["compilations"] = np.searchsorted(starts, high, "left") - np.searchsorted(starts, low, "left")
    return stride, columns


def _lines(
    read: Reading, found: Collectives, by_device: bool, steady: bool, texts: dict[str, int]
) -> tuple[Columns, Columns]:
    """The table of lines, and the collectives with positions in it."""
    sums = read.device if by_device and read.device else read.host
    by_line: dict[tuple[str, int, str], list[int]] = {}
    for (file, line, function, is_steady), (self_ns, events) in sums.items():
        if is_steady or not steady:
            entry = by_line.setdefault((plain(file, 400), line, plain(function, 200)), [0, 0])
            entry[0] += self_ns
            entry[1] += events
    used = [found.places[at] for at in np.unique(found.columns["line"]).tolist()]
    top = sorted(by_line, key=lambda place: (-by_line[place][0], place))[:MOST_LINES]
    order = list(dict.fromkeys([*top, *(place for place in used if place[0])]))
    position = {place: at for at, place in enumerate(order)}
    rows = [by_line.get(place, (0, 0)) for place in order]
    columns = dict(zip(
        LINE_COLUMNS,
        (text_codes(texts, [p[0] for p in order]), np.array([p[1] for p in order], np.int64),
         text_codes(texts, [p[2] for p in order]), np.array([r[0] for r in rows], np.int64),
         np.array([r[1] for r in rows], np.int64)),
        strict=True,
    ))  # fmt: skip
    moved = np.array([position.get(place, -1) for place in found.places] or [-1], np.int64)
    small = {**found.columns, "line": moved[found.columns["line"]]} if len(found.columns["line"]) else found.columns
    return columns, small


def _group_times(every: Columns, spans: list[Any], work: Intervals) -> Columns:
    """Of each group and operation: how long any went on in the counted steps, and how long nothing else did."""
    low = np.array([w.start for w in spans], np.int64)
    high = low + np.array([w.total_ns for w in spans], np.int64)
    counted = iv.merged(low, high)
    inside = iv.inside(counted, every["submit"])
    pairs = sorted(set(zip(every["group"].tolist(), every["operation"].tolist(), strict=True)))[:_MOST_PAIRS]
    rows = []
    for group, operation in pairs:
        mine = (every["group"] == group) & (every["operation"] == operation)
        went_on = iv.merged(every["begin"][mine], np.where(every["end_from"] != NOT_SEEN, every["end"], 0)[mine])
        called = [
            iv.merged(every["submit"][mine], every["returned"][mine]),
            iv.merged(every["wait_start"][mine], (every["wait_start"] + every["wait_ns"])[mine]),
        ]
        # A stream's own time counts where nothing is computed beside it; else the host's time in calls and waits.
        alone = iv.subtract(went_on, work) if len(work) else iv.union(*called)
        rows.append((
            group, operation, len(spans), int((mine & inside).sum()),
            _bytes(every["bytes"][mine & inside]),
            int(iv.covered(went_on, counted.start, counted.stop).sum()),
            int(iv.covered(alone, counted.start, counted.stop).sum()),
        ))  # fmt: skip
    values = np.array(rows, np.int64).reshape(-1, len(GROUP_TIME_COLUMNS))
    return {name: values[:, at].copy() for at, name in enumerate(GROUP_TIME_COLUMNS)}


def _bytes(sizes: np.ndarray) -> int:
    """Their sum; -1 where one of them is not told."""
    return min(int(sizes.astype(float).sum()), 1 << 62) if (sizes >= 0).all() else -1


def _memory(trace: Trace, texts: dict[str, int]) -> Columns:
    from neuron_explorer.analysis.memory_blocks import blocks
    from neuron_explorer.analysis.memory_state import owners, peak, window

    found = blocks(trace)
    rows, devices = [], []
    for owner in owners(found, NO_FILTER)[:64]:
        most = peak(trace, owner, window(trace, NO_FILTER))
        rows.append((0, most.bytes, most.at))
        devices.append(plain(found.owners[owner].device, 60))
    values = np.array(rows, np.int64).reshape(-1, len(MEMORY_COLUMNS))
    columns = {name: values[:, at].copy() for at, name in enumerate(MEMORY_COLUMNS)}
    columns["device"] = text_codes(texts, devices)
    return columns


def _empty(names: tuple[str, ...]) -> Columns:
    return {name: np.zeros(0, np.int64) for name in names}


def _notes(read: Reading, metadata: Mapping[str, Any]) -> list[str]:
    notes = []
    if not read.steps:
        notes.append("no steps")
    dropped = metadata["counts"].get("dropped")
    if isinstance(dropped, int) and dropped > 0:
        notes.append(f"{dropped:,} events were dropped")
    if not metadata["finished"]:
        notes.append("the recording ended early")
    return notes
