"""What each lane did when: rows sorted into a few sorts of activity, as sets of moments.

Recordings and imported traces name things differently: the kind of a row decides where it
says enough, else its name does (a kernel of a communication library, a copy of a driver).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.intervals import Intervals, union
from neuron_explorer.analysis.moments import Sorter, moments
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import WORK_KINDS, lanes

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

WORK, COLLECTIVE, COPY, SYNC, FALLBACK, DATA_WAIT, GC, COMPILE = SORTS = (
    "work", "collective", "copy", "sync", "fallback", "data_wait", "gc", "compile",
)  # fmt: skip
"""Sorts of activity. ``work``: an operator or backward node on the host, an execution on a device."""

_NAME: Final = "lower(coalesce(name, ''))"
_SYNC_NAME: Final = "^(cuda|hip|cu|mtia|xpu|nrt)[a-z_]*synchronize"
_COLLECTIVE_NAME: Final = "nccl|rccl|^(mscclpp?|oneccl)|cc_?exec"
_COPY_NAME: Final = "^(mem(cpy|set)|dma)"
SYNC_NAME: Final = re.compile(_SYNC_NAME)
"""The same as ``IS_SYNC``, for a name in lower case."""
_WAIT_NAME: Final = "^wait: "
IS_COLLECTIVE_WAIT: Final = f"(kind = 'sync' AND regexp_matches({_NAME}, '{_WAIT_NAME}'))"
"""SQL: the host waits for a collective."""
IS_SYNC: Final = f"regexp_matches({_NAME}, '{_SYNC_NAME}')"
"""SQL: a driver's call that waits for the device."""
IS_COLLECTIVE: Final = f"regexp_matches({_NAME}, '{_COLLECTIVE_NAME}')"
"""SQL: a kernel of a communication library."""
IS_COPY: Final = f"regexp_matches({_NAME}, '{_COPY_NAME}')"
"""SQL: a copy or fill by the driver, or a request of a DMA engine."""

HOST_SORT: Final = (
    f"CASE WHEN kind = 'data_wait' THEN {SORTS.index(DATA_WAIT)} WHEN kind = 'gc' THEN {SORTS.index(GC)} "
    f"WHEN kind = 'copy' THEN {SORTS.index(COPY)} WHEN kind = 'fallback' THEN {SORTS.index(FALLBACK)} "
    f"WHEN kind = 'collective' OR {IS_COLLECTIVE_WAIT} THEN {SORTS.index(COLLECTIVE)} "
    f"WHEN kind = 'sync' OR (kind = 'launch' AND {IS_SYNC}) THEN {SORTS.index(SYNC)} "
    f"WHEN kind IN ('compile', 'recompile') THEN {SORTS.index(COMPILE)} ELSE {SORTS.index(WORK)} END"
)
"""SQL: the sort of a host row, as a position in ``SORTS``."""
HOST_KINDS: Final = (*WORK_KINDS, "data_wait", "gc", "compile", "recompile")

DEVICE_KINDS: Final = ("device", "copy", "collective")
DEVICE_SORT: Final = (
    f"CASE WHEN kind = 'collective' OR {IS_COLLECTIVE} THEN {SORTS.index(COLLECTIVE)} "
    f"WHEN kind = 'copy' OR {IS_COPY} THEN {SORTS.index(COPY)} ELSE {SORTS.index(WORK)} END"
)
"""SQL: the sort of a row on a device stream, as a position in ``SORTS``."""


@dataclass(frozen=True)
class Lane:
    """A lane of the trace, its texts safe to print. ``kind``: as in the lane table."""

    lane: int
    kind: str
    name: str
    rank: int
    process: int
    thread: int
    os_thread: int
    device: str
    stream: int

    @property
    def label(self) -> str:
        """Its name, with the stream where it is one."""
        return self.name or (f"{self.device} stream {self.stream}" if self.kind == "device" else f"lane {self.lane}")


def lane_table(trace: Trace) -> tuple[Lane, ...]:
    """The lanes of the trace by number; a trace without a lane table has those that its host rows name."""
    found = [_lane(entry) for entry in lanes(trace.metadata)]
    if not found:
        rows = trace.sql_arrow(
            "SELECT lane, min(rank) AS rank, min(process) AS process, min(thread) AS thread, min(stream) AS stream, "
            "bool_or(kind = 'device') AS device, bool_and(kind IN ('step', 'counter', 'warning')) AS other "
            "FROM events GROUP BY lane ORDER BY lane LIMIT 10000"
        ).to_pylist()
        found = [
            Lane(r["lane"], "device" if r["device"] else "steps" if r["other"] else "thread", "", r["rank"],
                 r["process"], r["thread"], -1, "device" if r["device"] else "", r["stream"])
            for r in rows
        ]  # fmt: skip
    return tuple(sorted({lane.lane: lane for lane in found}.values(), key=lambda lane: lane.lane))


def _lane(entry: Mapping[str, Any]) -> Lane:
    def number(key: str, default: int = -1) -> int:
        value = entry.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def text(key: str) -> str:
        value = entry.get(key)
        return plain(value, 100) if isinstance(value, str) else ""

    return Lane(
        number("lane"), text("kind"), text("name"), number("rank", 0), number("process"), number("thread"),
        number("os_thread"), text("device"), number("stream"),
    )  # fmt: skip


def activity(trace: Trace, lane_numbers: Iterable[int], *, device: bool = False) -> dict[str, Intervals]:
    """The moments of each sort on the given lanes together; every sort is there.

    Rows without an end and rows that end before they begin hold no moment.
    """
    look = moments(trace, _SORTERS)
    lanes = sorted(set(lane_numbers))
    return {name: union(*(look("device" if device else "host", lane, i) for lane in lanes))
            for i, name in enumerate(SORTS)}  # fmt: skip


def collective_waits(trace: Trace, lane_numbers: Iterable[int]) -> Intervals:
    """The moments in which these lanes waited for collectives."""
    look = moments(trace, _SORTERS)
    return union(*(look("waits", lane, _WAITING) for lane in sorted(set(lane_numbers))))


def backward(trace: Trace, lane_numbers: Iterable[int]) -> Intervals:
    """The moments in which these lanes ran backward nodes."""
    look = moments(trace, _SORTERS)
    return union(*(look("backward", lane, _BACKWARD) for lane in sorted(set(lane_numbers))))


_BY_KIND: Final = {
    "data_wait": DATA_WAIT, "gc": GC, "copy": COPY, "fallback": FALLBACK, "collective": COLLECTIVE, "sync": SYNC,
    "compile": COMPILE, "recompile": COMPILE,
}  # fmt: skip
_BACKWARD: Final = 0
_WAITING: Final = 0
# The same as HOST_SORT and DEVICE_SORT, which say it in SQL.
_SORTERS: Final = {
    "host": Sorter(
        {kind: SORTS.index(_BY_KIND.get(kind, WORK)) for kind in HOST_KINDS},
        ((SYNC_NAME, ("launch",), SORTS.index(SYNC)), (re.compile(_WAIT_NAME), ("sync",), SORTS.index(COLLECTIVE))),
        outermost=True,
    ),
    "device": Sorter(
        {"device": SORTS.index(WORK), "copy": SORTS.index(COPY), "collective": SORTS.index(COLLECTIVE)},
        (
            (re.compile(_COLLECTIVE_NAME), DEVICE_KINDS, SORTS.index(COLLECTIVE)),
            (re.compile(_COPY_NAME), ("device", "copy"), SORTS.index(COPY)),
        ),
    ),
    "waits": Sorter({}, ((re.compile(_WAIT_NAME), ("sync",), _WAITING),)),
    "backward": Sorter({"autograd": _BACKWARD}, engine=_BACKWARD),
}  # fmt: skip
