"""What is kept of each rank's trace, and of a run: small tables, the same however the ranks are split.

A ``RankFacts`` is made by ``reduce.reduce_rank`` and is bounded whatever the length of the trace; a
``RunFacts`` is a set of them. All times are int64 ns since the start of the rank's own trace, by the
rank's own clock: only ``clocks`` brings them together. -1 is "none" or "not observed" in every column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.breakdown import PARTS
from neuron_explorer.trace.schema import PERIODS

if TYPE_CHECKING:
    import pyarrow as pa

VERSION: Final = 6
"""Raised when facts mean something else: kept ones are made again."""

OPERATIONS: Final = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "broadcast", "reduce", "gather",
    "scatter", "send", "recv", "other",
)  # fmt: skip
"""Operations of collectives; the column ``operation`` holds the position."""
PEER_TO_PEER: Final = ("send", "recv")

NOT_SEEN, BY_SUBMIT, BY_WAIT, BY_FLIGHT = ENDS = (0, 1, 2, 3)
"""How the end of a collective is known (column ``end_from``): not at all; the call returned, which says nothing
about the other ranks; the host's wait for it ended; the backend or device reported its completion."""

STEP_COLUMNS: Final = ("step", "period", "start", "total", *PARTS, "compilations")
"""Table ``steps``: a row a step. ``period``: position in ``PERIODS``. ``total`` and the parts of the breakdown in
ns; ``collectives_exposed`` is all time in which the rank did nothing but communicate or wait for a collective, on
whatever thread. ``compilations``: those that began in it."""

COLLECTIVE_COLUMNS: Final = (
    "group", "operation", "sequence", "numbered", "peer", "bytes", "dtype", "step", "line", "module", "for_module",
    "prefetched", "asynchronous", "submit", "returned", "begin", "end", "end_from", "wait_start", "wait_ns",
    "exposed", "hung",
)  # fmt: skip
"""Table ``collectives``: a row a collective, in the order of their submission.

``group``: position in ``RankFacts.groups``; ``line``: in the table ``lines``; ``dtype``, ``module`` and
``for_module``: in ``RankFacts.texts``. ``sequence``: its number in its group; where ``numbered`` is 0 the trace
does not tell it, and it is the ordinal of its operation in its group (and step, where there is one).
``submit``, ``returned``: the host's call. ``begin``, ``end``: when this rank took part, as well as is known.
``prefetched``: 1 for one that FSDP2 issued while another module was at work, 0 for one that it did not.
``exposed``: ns in which the rank did nothing else. ``hung``: 1 for one that was begun and never ended."""

LINE_COLUMNS: Final = ("file", "line", "function", "self", "events")
"""Table ``lines``: ``file`` and ``function`` in ``RankFacts.texts``. ``self``: ns of the operators of the line over
the steps that count (``RankFacts.counted_steps``), collectives excepted."""

GROUP_TIME_COLUMNS: Final = ("group", "operation", "steps", "events", "bytes", "busy", "exposed")
"""Table ``group_times``: sums over the counted steps. ``busy``: ns in which any such collective went on;
``exposed``: and the rank did nothing else. ``bytes`` -1 where one of them is not told."""

COMPILE_COLUMNS: Final = ("file", "line", "function", "cause", "graph", "operations", "count", "ns")
"""Table ``compiles``: ``graph`` and ``cause`` in ``RankFacts.texts``: what the graph consists of, as a digest; why it
was compiled again, "" for a first time."""

MEMORY_COLUMNS: Final = ("device", "peak", "at")
"""Table ``memory``: ``device`` in ``RankFacts.texts``, bytes at the peak and when it was."""

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "steps": STEP_COLUMNS, "collectives": COLLECTIVE_COLUMNS, "lines": LINE_COLUMNS,
    "group_times": GROUP_TIME_COLUMNS, "compiles": COMPILE_COLUMNS, "memory": MEMORY_COLUMNS,
}  # fmt: skip
"""The tables by their names; every column is int64."""

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Group:
    """A process group as this rank knows it. ``ranks``: () where they are not told; ``size`` -1 unknown.

    ``mesh_dimension``: the name of the dimension of a device mesh whose group it is, "" for none.
    """

    name: str
    description: str = ""
    backend: str = ""
    ranks: tuple[int, ...] = ()
    size: int = -1
    mesh_dimension: str = ""

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """What it is recognised by: groups of the same name with other ranks are others."""
        return self.name, self.ranks


@dataclass(frozen=True)
class RankFacts:
    """What is kept of one rank's trace.

    ``counted_steps``: steps that the sums are over (the steady ones, else all; 0: the whole run).
    ``counted_ns``: their time. ``stride``, ``step_stride``: of the collectives of each group, and of the steps,
    those are kept whose number is a multiple of it. ``notes``: what could not be seen.
    """

    rank: int
    world_size: int
    path: str = ""
    attempt: int = 0
    run_id: str = ""
    host: str = ""
    torch: str = ""
    device: str = "cpu"
    emulated: bool = False
    chip: str = ""
    backend: str = ""
    start_unix_ns: int = 0
    duration_ns: int = 0
    events: int = 0
    finished: bool = True
    recovered: bool = False
    steps_rule: str = ""
    counted_steps: int = 0
    counted_ns: int = 0
    steady: bool = False
    compiles_observed: bool = False
    memory_observed: bool = False
    collectives_observed: bool = False
    all_steps: int = 0
    all_collectives: int = 0
    stride: int = 1
    step_stride: int = 1
    groups: tuple[Group, ...] = ()
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Columns] = field(default_factory=dict, compare=False, repr=False)

    def columns(self, table: str) -> Columns:
        """A table as int64 arrays by column; without rows where it is not there. Raises KeyError for no table."""
        names = TABLES[table]
        found = self.tables.get(table)
        return found if found is not None else {name: np.zeros(0, np.int64) for name in names}

    def arrow(self, table: str) -> pa.Table:
        """The same as an Arrow table."""
        import pyarrow as pa

        from neuron_explorer.trace.write import integers

        return pa.table({name: integers(values, "int64") for name, values in self.columns(table).items()})

    def text(self, position: int) -> str:
        """A text by its position, "" for -1."""
        return self.texts[position] if 0 <= position < len(self.texts) else ""

    def place(self, line: int) -> tuple[str, int, str]:
        """File, line and function of a row of the table ``lines``; ("", -1, "") for -1."""
        lines = self.columns("lines")
        if not 0 <= line < len(lines["line"]):
            return "", -1, ""
        return self.text(int(lines["file"][line])), int(lines["line"][line]), self.text(int(lines["function"][line]))

    def to_bytes(self) -> bytes:
        """As bytes: a JSON head and the tables as Arrow IPC."""
        from neuron_explorer.analysis.ranks.packing import pack

        return pack(self)

    @staticmethod
    def from_bytes(data: bytes | memoryview) -> RankFacts:
        """Raises ``BadTraceError`` for anything that ``to_bytes`` of this version does not write."""
        from neuron_explorer.analysis.ranks.packing import unpack

        return unpack(data)


@dataclass(frozen=True)
class RunFacts:
    """The ranks of a run, by rank and each once. ``set_aside``: ranks of which there was more than one."""

    ranks: tuple[RankFacts, ...] = ()
    set_aside: tuple[int, ...] = ()

    @property
    def world_size(self) -> int:
        """Ranks that the run had, as far as its traces tell."""
        return max([len(self.ranks), *(r.world_size for r in self.ranks), *(r.rank + 1 for r in self.ranks)])

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks without facts."""
        there = {r.rank for r in self.ranks}
        return tuple(rank for rank in range(min(self.world_size, 10_000_000)) if rank not in there)

    def of(self, rank: int) -> RankFacts | None:
        """The facts of a rank, None where there are none."""
        return next((r for r in self.ranks if r.rank == rank), None)


PERIOD_CODES: Final = {name: code for code, name in enumerate(PERIODS)}
OPERATION_CODES: Final = {name: code for code, name in enumerate(OPERATIONS)}
