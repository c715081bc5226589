"""Compilations in a trace: on a lane of their own for each thread that compiles.

``CompileRows`` serves the rows of a recording to the converter window by window; ``compile_trace``
makes a whole trace of nothing else, for logs that are imported.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import schema
from .closest_entry import nearest_first
from .compile_detail import Details, files_of
from .compile_table import KINDS, CompileTable, columns_of, compile_table
from .compile_text import Texts
from .compiles import Compiles
from .metadata import CAPABILITIES, capability, default_metadata, thread_lane
from .paths import PathRules
from .scan import plausible
from .steps import steps_at
from .write import Coded

if TYPE_CHECKING:
    from .convert import Recording

__all__ = ["CAPABILITIES_OF_COMPILES", "CompileRows", "CompileTrace", "compile_rows", "compile_trace"]

CAPABILITIES_OF_COMPILES: Final = ("compile", "recompile_reasons", "graph_breaks", "guards", "compile_phases")


def _details(compiles: Iterable[Compiles], rules: PathRules, with_source: bool) -> Details:
    files = [f for c in compiles for f in sorted(files_of(c))]
    return Details(rules, Texts(rules, files, with_source=with_source))


@dataclass
class CompileRows:
    """The compilations of a recording: rows by start, and which compilation a launch runs."""

    columns: dict[str, Any]
    start: np.ndarray
    process: np.ndarray  # position of each row's process
    tables: dict[int, CompileTable]  # by position of the process
    lanes: list[tuple[int, int, str, int, int]]  # lane, position of the process, name, thread number, OS thread
    end: int
    notes: tuple[str, ...] = ()  # what this torch did not tell

    def __len__(self) -> int:
        return len(self.start)

    @property
    def unended(self) -> int:
        """Compilations whose end was not seen."""
        return sum(t.unended for t in self.tables.values())

    @property
    def quarantined(self) -> int:
        """Impossible times."""
        return sum(t.quarantined for t in self.tables.values())

    @property
    def dropped(self) -> int:
        """What was left out of the recording or could not be read."""
        return sum(t.dropped for t in self.tables.values())

    def window(self, recording: Recording, low: int, high: int) -> dict[str, Any] | None:
        """The columns of the rows that start in [low, high), or None."""
        edges: Any = np.searchsorted(self.start, np.array([low, high]))
        first, last = int(edges[0]), int(edges[1])
        if last <= first:
            return None
        part = slice(first, last)
        found: dict[str, Any] = {}
        for name, column in self.columns.items():
            found[name] = Coded(column.codes[part], column.values) if isinstance(column, Coded) else column[part]
        found["step"], period = steps_at(recording, self.process[part], self.start[part])
        found["period"] = Coded(period, schema.PERIODS)
        return found

    def launched(self, process: int, compile_id: str, starts: np.ndarray) -> np.ndarray:
        """Ids of the compile rows that made what is launched at ``starts`` (CLOCK_MONOTONIC ns), -1 unknown."""
        table = self.tables.get(process)
        known = table.compiled.get(compile_id) if table is not None else None
        if known is None:
            return np.full(len(starts), -1, np.int64)
        began, ids = np.array(known[0], np.int64), np.array(known[1], np.int64)
        at: Any = np.searchsorted(began, starts, "right") - 1
        return np.where(at >= 0, ids[np.maximum(at, 0)], -1)


def compile_rows(
    recording: Recording, found: Sequence[Compiles], rules: PathRules, *, first_id: int, first_lane: int,
    with_source: bool,
) -> CompileRows:  # fmt: skip
    """The rows of all compilations of a recording; ids and lanes from the given numbers on."""
    found = [nearest_first(one) for one in found]
    details = _details(found, rules, with_source)
    tables: dict[int, CompileTable] = {}
    last = max((t.scan.last for t in recording.threads), default=recording.start_ns)
    for compiles in found:
        position = next((i for i, p in enumerate(recording.processes) if p.pid == compiles.pid), None)
        if position is None or position in tables:
            continue
        tables[position] = compile_table(
            compiles, details, first_id=first_id, start_ns=recording.start_ns, bounds=recording.bounds, end_ns=last
        )
        first_id += len(tables[position])
    positions = list(tables)
    numbers = [_thread_numbers(recording, position) for position in positions]
    lanes: dict[tuple[int, int], int] = {}
    described = []
    others = itertools.count(1)  # threads that ran no operator
    for n, position in enumerate(positions):
        table = tables[position]
        for thread in table.threads:
            lane = lanes[n, thread] = first_lane + len(lanes)
            number, called = numbers[n].get(thread) or (-1, f"other thread {next(others)}")
            name = "compile" if len(table.threads) == 1 else f"compile · {called}"
            described.append((lane, position, name, number, thread))
    columns, start, which = columns_of(
        list(tables.values()), lanes, details, rules, start_ns=recording.start_ns, ranks=[recording.rank] * len(tables),
        threads=lambda n, thread: numbers[n].get(thread, (-1, ""))[0],
    )  # fmt: skip
    process = np.array(positions, np.int64)[which] if positions else which
    notes = tuple(dict.fromkeys(n for c in found for n in c.notes))
    end = max((t.end for t in tables.values()), default=0)
    return CompileRows(columns, start, process, tables, described, end, notes)


def _thread_numbers(recording: Recording, position: int) -> dict[int, tuple[int, str]]:
    """OS id → number and name of the threads of a process. An id that was used again is its first thread's."""
    mine = [t for t in recording.threads if t.process == position]
    numbers: dict[int, tuple[int, str]] = {}
    for n, thread in enumerate(mine):
        file = thread.scan.file
        name = file.name or ("main thread" if n == 0 else f"thread {file.sequence}")
        numbers.setdefault(file.os_thread, (file.sequence, name))
    return numbers


# For importers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompileTrace:
    """A trace of compilations only: write ``columns`` with a ``TraceWriter`` and close it with ``metadata``."""

    columns: dict[str, Any]
    metadata: dict[str, Any]


def compile_trace(
    found: Sequence[Compiles], rules: PathRules, *, ranks: Sequence[int] | None = None, start_unix_ns: int = 0,
    observed: Mapping[str, str | None] | None = None, not_observed: str = "imported from a log of compilations",
    with_source: bool = True,
) -> CompileTrace:  # fmt: skip
    """What an importer writes: rows, lanes and metadata of compilations without a recording.

    ``found``: the compilations of each process, times on one clock for all of them; time 0 of the
    trace is the first of them, whose Unix time is ``start_unix_ns``. ``ranks``: of each process (0).
    ``observed``: capability ("compile", "recompile_reasons", "graph_breaks", "guards",
    "compile_phases") → its limits, "" for none, None where the log does not tell; default: all
    without limits. Everything else is not observed, because of ``not_observed``. Rank lanes are
    named by rank where there are several. Versions, script and the like are the caller's to add::

        made = compile_trace(found, PathRules({}), start_unix_ns=began)
        with TraceWriter(path, made.metadata | {"versions": versions}) as writer:
            writer.write_rows(made.columns)
    """
    found = [nearest_first(one) for one in found]
    of_rank = list(ranks) if ranks is not None else [0] * len(found)
    begins = [c.start for one in found for c in one.compilations] + [p.start for one in found for p in one.phases]
    begins += [b.time for one in found for b in one.breaks] + [x.time for one in found for x in one.limits]
    start_ns = min((t for t in begins if t > 0), default=0)
    bounds = plausible(start_ns)
    details = _details(found, rules, with_source)
    tables: list[CompileTable] = []
    first_id = 0
    for compiles in found:
        tables.append(compile_table(compiles, details, first_id=first_id, start_ns=start_ns, bounds=bounds))
        first_id += len(tables[-1])
    lanes: dict[tuple[int, int], int] = {}
    entries = []
    several = len(set(of_rank)) > 1
    for n, table in enumerate(tables):
        for number, thread in enumerate(table.threads):
            lane = lanes[n, thread] = len(lanes)
            name = "compile" if len(table.threads) == 1 else f"compile · thread {number + 1}"
            entries.append(
                thread_lane(lane, name, kind="compile", rank=of_rank[n], process=table.pid, thread=number,
                            process_name=f"rank {of_rank[n]}" if several else "main", os_thread=thread)
            )  # fmt: skip
    columns, _, _ = columns_of(
        tables, lanes, details, rules, start_ns=start_ns, ranks=of_rank,
        threads=lambda n, thread: tables[n].threads.index(thread),
    )  # fmt: skip
    document = default_metadata()
    told = dict.fromkeys(CAPABILITIES_OF_COMPILES, "") if observed is None else dict(observed)
    document["capabilities"] = {name: capability(False, not_observed) for name in CAPABILITIES} | {
        name: capability(False, not_observed) if limit is None else capability(True, limit)
        for name, limit in told.items()
    }
    kinds, numbers = np.unique(columns["kind"].codes, return_counts=True)
    document["counts"] |= {
        "events": first_id, "by_kind": {KINDS[int(k)]: int(c) for k, c in zip(kinds, numbers, strict=True)},
        "unended": sum(t.unended for t in tables), "quarantined": sum(t.quarantined for t in tables),
        "compiles_dropped": sum(t.dropped for t in tables),
    }  # fmt: skip
    document["start_unix_ns"] = start_unix_ns
    document["duration_ns"] = max(0, max((t.end for t in tables), default=start_ns) - start_ns)
    document["device"] = {"type": "unknown", "name": "", "emulated": False}
    document["recorder"] = "import"
    document["world_size"] = max([1, *(r + 1 for r in of_rank)])
    document["rank"] = of_rank[0] if len(of_rank) == 1 else 0
    document["lanes"] = entries
    document["discloses"] |= {"compilations": first_id > 0, "paths": "absolute" if rules.absolute else "relative"}
    return CompileTrace(columns, document)
