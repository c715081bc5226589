"""A spool becomes a trace.

The recording is read in windows of time with a bounded number of records, so memory does not
grow with the length of a run. Everything per event is done with numpy on whole columns; what
is interned (names, frames, signatures, modules) is worked out once per table entry.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import compile_spool, device_spool
from .attribution import attribute
from .autograd import ForwardIndex
from .calls import Calls, module_calls
from .collective_rows import Collectives
from .columns import Tally, event_columns, frame_columns, step_rows
from .compiles import Compiles
from .custom_operators import KernelTable, add_kernel_sources
from .device_rows import DeviceRows, device_rows, merged
from .document import trace_metadata
from .graph_lines import GraphLines
from .lookups import COLLECTIVE, COLLECTIVE_WAIT, FLIGHT, Lookups, merge
from .paths import PathRules
from .rows import Thread, load
from .scan import Plausible, plausible, scan_thread, windows
from .session_fields import flag, integer, setting
from .sources import add_compiled, collect_sources, source_files
from .spool_reader import ProcessSpool, read_processes, read_session
from .steps import NO_STEPS, Steps, by_calls, by_marks, by_optimizer, compilations, compiling, with_compiles
from .write import TraceWriter

if TYPE_CHECKING:
    from .compile_rows import CompileRows

__all__ = ["ConvertResult", "convert"]

WINDOW_ROWS: Final = 1 << 17
_END_OF_TIME: Final = 1 << 62


@dataclass(frozen=True)
class ConvertResult:
    """What became of a recording. Counts of events; ``duration_ns`` is the trace's length."""

    output: Path
    events: int
    duration_ns: int
    torn_records: int
    torn_table_entries: int
    unended: int
    quarantined: int
    steps: int
    recovered: bool


@dataclass
class Recording:
    """Everything about a spool that the second pass needs."""

    session: dict[str, Any]
    processes: list[ProcessSpool]
    threads: list[Thread]
    lookups: Lookups
    steps: list[Steps]  # per process
    start_ns: int
    bounds: Plausible
    events: int  # slots in all files; then the ids of steps, of the device's rows and of compilations
    device: DeviceRows | None = None
    compiles: CompileRows | None = None
    kernels: KernelTable | None = None
    collectives: Collectives | None = None

    @property
    def with_tensors(self) -> bool:
        """Whether storage ids of inputs were asked for."""
        return flag(self.session, "tensors", False)

    @property
    def rank(self) -> int:
        """Distributed rank."""
        return min(integer(self.session, "rank"), (1 << 31) - 1)

    @property
    def pids(self) -> np.ndarray:
        """Operating system id per process."""
        return np.array([p.pid for p in self.processes], np.int64)

    @property
    def step_lanes(self) -> np.ndarray:
        """Lane of each process's steps."""
        return len(self.threads) + np.arange(len(self.processes), dtype=np.int32)

    @property
    def counter_lanes(self) -> np.ndarray:
        """Lane of each process's counters."""
        return self.step_lanes + np.int32(len(self.processes))


def convert(
    spool_dir: Path,
    output: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    extra: Mapping[str, Any] | None = None,
    recovered: bool = False,
    keep_spool: bool = False,
) -> ConvertResult:
    """Write the trace of the recording in ``spool_dir`` to ``output`` and remove the spool.

    ``output`` appears whole or not at all; when writing fails the spool is kept. ``progress``
    is called with (events written, events in all). ``extra`` replaces entries of the metadata,
    except ``stop_began_monotonic_ns``, from which the time to stop is computed.

    Raises ``BadTraceError`` when ``spool_dir`` is no spool, ``OutputError`` when ``output``
    cannot be written.
    """
    session = read_session(spool_dir)
    processes = read_processes(spool_dir)
    rules = PathRules(session)
    try:
        compiles = compile_spool.read(spool_dir)
        recording = prepare(session, processes, rules, compiles)
        files = source_files(processes, rules)
        add_compiled(files, compiles, processes, rules)
        add_kernel_sources(files, session, rules)
        texts, refused = collect_sources(files, setting(session, "source", "all"), integer(session, "start_unix_ns"))
        recording.kernels = KernelTable(session, recording.lookups, rules, texts)
        recording.device = _device(recording, device_spool.read(spool_dir))
        recording.compiles = _compiles(recording, compiles, rules)
        recording.collectives = _collectives(recording)
        with TraceWriter(output) as writer:
            tally = _write(writer, recording, texts, progress)
            document = trace_metadata(recording, tally, recovered=recovered, sources=texts, refused=refused)
            _add_extra(document, extra or {})
            writer.close(document)
    finally:
        for process in processes:
            for file in process.files:
                file.close()
    if not keep_spool:
        shutil.rmtree(spool_dir, ignore_errors=True)
    counts = document["counts"]
    return ConvertResult(
        output=output,
        events=counts["events"],
        duration_ns=document["duration_ns"],
        torn_records=counts["torn_records"],
        torn_table_entries=counts["torn_table_entries"],
        unended=counts["unended"],
        quarantined=counts["quarantined"],
        steps=document["steps"]["count"],
        recovered=recovered,
    )


def prepare(
    session: dict[str, Any], processes: list[ProcessSpool], rules: PathRules, compiles: Sequence[Compiles] = ()
) -> Recording:
    """The first pass: tables, order of records, steps."""
    lookups = merge(processes, rules, GraphLines(session))
    bounds = plausible(integer(session, "start_monotonic_ns") or min((p.start_ns for p in processes), default=0))
    threads: list[Thread] = []
    id_base = 0
    for position, (process, bases) in enumerate(zip(processes, lookups.bases, strict=True)):
        tables = process.tables
        for file in process.files:
            scan = scan_thread(
                file, lookups.traits, bases.name, len(tables.names), bases.frame, len(tables.frame_parent), bounds
            )
            if not file.count and not scan.torn:
                continue
            threads.append(Thread(scan, len(threads), position, id_base, bases, tables))
            id_base += file.count
    start = integer(session, "start_monotonic_ns")
    first = min((t.scan.first for t in threads if t.scan.first), default=start)
    start = min(start, first) if start else first
    steps = find_steps(session, processes, threads, lookups, start, compiles)
    return Recording(session, processes, threads, lookups, steps, start, bounds, id_base)


def find_steps(
    session: Mapping[str, Any], processes: list[ProcessSpool], threads: list[Thread], lookups: Lookups, start: int,
    compiles: Sequence[Compiles] = (),
) -> list[Steps]:  # fmt: skip
    """The steps of each process. A process without its own (a DataLoader's worker) has none here."""
    if setting(session, "steps", "auto") == "none":
        return [NO_STEPS] * len(processes)
    found = []
    for position in range(len(processes)):
        mine = [t for t in threads if t.process == position]
        if not mine:
            found.append(NO_STEPS)
            continue
        marks = np.concatenate([t.scan.marks for t in mine])
        marks = marks[np.argsort(marks["start"], kind="stable")]
        began = start if position == 0 else max(start, min(t.scan.first for t in mine))
        steps = by_marks(marks, began) or by_optimizer(marks, lookups, began)
        if steps is None:
            largest = sorted(mine, key=lambda t: -t.scan.file.count)[:4]
            calls = [module_calls(t.scan.file, t.bases, t.tables, lookups) for t in largest]
            best: Calls | None = max((c for c in calls if c), key=lambda c: len(c.start), default=None)
            steps = by_calls(best, lookups) or NO_STEPS
        seen = next((compiling(c) for c in compiles if c.pid == processes[position].pid), None)
        # Where nobody watched the compilers, a gap before the first launch of a region gives them away.
        others = [seen] if seen is not None else [t.scan.compiles for t in mine]
        found.append(with_compiles(steps, np.concatenate([compilations(marks, lookups), *others])))
    return found


def _device(recording: Recording, spools: list[device_spool.DeviceSpool]) -> DeviceRows | None:
    if not spools:
        return None
    first_id = recording.events + sum(len(steps) for steps in recording.steps)
    return device_rows(recording, spools, first_id, len(recording.threads) + 2 * len(recording.processes))


def _compiles(recording: Recording, found: Sequence[Compiles], rules: PathRules) -> CompileRows | None:
    if not found:
        return None
    from .compile_rows import compile_rows  # programs that compile nothing need not load it

    device = recording.device
    first_id = recording.events + sum(len(steps) for steps in recording.steps) + (len(device) if device else 0)
    first_lane = len(recording.threads) + 2 * len(recording.processes) + (len(device.lanes) if device else 0)
    with_source = setting(recording.session, "source", "all") != "none"
    return compile_rows(
        recording, found, rules, first_id=first_id, first_lane=first_lane, with_source=with_source
    )


def _collectives(recording: Recording) -> Collectives | None:
    if not (recording.lookups.traits & (COLLECTIVE | COLLECTIVE_WAIT | FLIGHT)).any():
        return None
    device, compiles = recording.device, recording.compiles
    taken = len(recording.threads) + 2 * len(recording.processes)
    taken += (len(device.lanes) if device else 0) + (len(compiles.lanes) if compiles else 0)
    return Collectives(recording, taken)


def _write(
    writer: TraceWriter,
    recording: Recording,
    texts: Mapping[str, str],
    progress: Callable[[int, int], None] | None,
) -> Tally:
    lookups = recording.lookups
    if len(lookups.frames) > 1:
        writer.write_rows(frame_columns(lookups))
    if texts:
        writer.write_rows({"kind": "source", "file": list(texts), "text": list(texts.values())})
    stacks = flag(recording.session, "stacks", True)
    tally = Tally()
    if recording.compiles is not None:
        tally.unended += recording.compiles.unended
        tally.quarantined += recording.compiles.quarantined
    forwards: dict[tuple[int, int], ForwardIndex] = {}
    device = recording.device
    total = sum(t.scan.file.count for t in recording.threads)
    cuts = windows([t.scan for t in recording.threads], WINDOW_ROWS)
    edges = [0, *cuts, _END_OF_TIME]
    for low, high in pairwise(edges):
        rows = load(recording.threads, lookups, low, high, recording.bounds)
        steps = step_rows(recording, low, high)
        columns = None
        if len(rows) or steps is not None:
            origins = attribute(rows, recording.threads, lookups, forwards, stacks) if len(rows) else None
            if recording.kernels is not None:
                recording.kernels.learn(rows)
            columns = event_columns(recording, rows, origins, steps, tally)
            if device is not None and origins is not None:
                device.learn(rows, origins)
        if device is not None:
            more = device.columns(recording, low, high)
            tally.add(more)
            columns = merged(columns, more)
        if recording.compiles is not None:
            more = recording.compiles.window(recording, low, high)
            tally.add(more)
            columns = merged(columns, more)
        if columns is not None:
            writer.write_rows(columns)
        if progress is not None:
            progress(min(tally.events, total), total)
    return tally


def _add_extra(document: dict[str, Any], extra: Mapping[str, Any]) -> None:
    rest = dict(extra)
    began = rest.pop("stop_began_monotonic_ns", None)
    if isinstance(began, int):
        document["overhead"]["stop_ns"] = max(0, time.monotonic_ns() - began)
    document.update(rest)
