"""Where the host waits for the device: values read back, and copies between the two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.calls import Calls
from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.analysis.line_counts import tally
from neuron_explorer.analysis.op_names import base_name
from neuron_explorer.analysis.op_status import whole

if TYPE_CHECKING:
    from neuron_explorer.analysis.selection import Selection
    from neuron_explorer.trace.store import Trace

MOST_ROWS: Final = 200
_READS: Final = ("_local_scalar_dense",)


@dataclass(frozen=True)
class Wait:
    """A line at which the host waits. Durations are host time of the whole run.

    ``what``: ``value`` (a number is read back), ``to host`` or ``to device`` (a copy).
    ``predicted``: the recorded device did not make the host wait; a Neuron device would.
    ``host_counter``: in the optimizer, where torch may keep the number on the CPU.
    """

    file: str
    line: int
    function: str
    what: str
    name: str
    calls: int
    steady_calls: int
    duration_ns: int
    bytes: int
    predicted: bool
    host_counter: bool = False


def waits(trace: Trace, calls: Calls, here: np.ndarray, selection: Selection) -> tuple[Wait, ...]:
    """The waits by line, most calls first."""
    device = trace.metadata.get("device")
    kind = device.get("type") if isinstance(device, dict) else None
    found = _predicted(calls, here) if kind in ("cpu", None) else _seen(trace, selection)
    found.sort(key=lambda w: (w.host_counter, w.what == "to device", -w.calls, w.file, w.line))
    return tuple(found[:MOST_ROWS])


def _predicted(calls: Calls, here: np.ndarray) -> list[Wait]:
    reads = here & calls.where([base_name(g.name) in _READS and g.kind in ("op", "sync") for g in calls.groups])
    counts = tally(calls, reads)
    sums: dict[tuple[str, int, str, bool], list[int]] = {}
    for position in counts.groups():
        group = calls.groups[position]
        key = (group.file, group.line, group.function, group.phase == "optimizer")
        entry = sums.setdefault(key, [0, 0, 0])
        entry[0] += int(counts.calls[position])
        entry[1] += int(counts.steady[position])
        entry[2] += int(counts.duration[position])
    return [
        Wait(file, line, function, "value", "aten::item", n, steady, ns, 0, True, optimizer)
        for (file, line, function, optimizer), (n, steady, ns) in sums.items()
    ]


def _seen(trace: Trace, selection: Selection) -> list[Wait]:
    rows = trace.sql_arrow(
        "SELECT coalesce(file, '') AS file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, "
        "coalesce(min(function), '') AS function, kind, coalesce(name, '') AS name, left(detail, 4096) AS detail, "
        "count(*) AS n, count(*) FILTER (period = 'steady') AS steady, "
        "CAST(coalesce(sum(duration) FILTER (duration >= 0), 0) AS BIGINT) AS ns "
        f"FROM events WHERE {selection.where} AND kind IN ('sync', 'copy') "
        "AND (parent < 0 OR parent NOT IN (SELECT id FROM events WHERE kind IN ('sync', 'copy', 'fallback'))) "
        "GROUP BY 1, 2, kind, name, 6 ORDER BY n DESC LIMIT 100000"
    ).to_pylist()
    sums: dict[tuple[str, int, str, str], Wait] = {}
    for row in rows:
        detail = detail_of(row["detail"])
        what = "value" if row["kind"] == "sync" else _direction(detail)
        if what == "" or detail.get("bytes") == 0:
            continue
        key = (row["file"], row["line"], what, row["name"])
        known = sums.get(key)
        add = (row["n"], row["steady"], row["ns"], row["n"] * whole(detail.get("bytes")))
        before = (known.calls, known.steady_calls, known.duration_ns, known.bytes) if known else (0, 0, 0, 0)
        n, steady, ns, size = (a + b for a, b in zip(before, add, strict=True))
        sums[key] = Wait(
            row["file"], row["line"], row["function"], what, row["name"], n, steady, ns, size, predicted=False
        )
    return list(sums.values())


def _direction(detail: dict[str, Any]) -> str:
    """Copies inside the device are no wait; one that does not say is taken for a wait."""
    said = detail.get("direction")
    return {"device_to_host": "to host", "host_to_device": "to device", "device_to_device": ""}.get(
        said if isinstance(said, str) else "", "to host"
    )
