"""The roofline of a profile of the device: FLOPs and bytes that it counted, over the time that it measured.

Nothing is modelled from shapes here (a profile has none): an operator's FLOPs are those of its
instructions on the tensor engine, its bytes those that it moved to and from HBM. The time is the
union of the intervals in which its instructions ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from neuron_explorer.analysis.hardware_bound import Bound, HardwareBound
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.analysis.work import Unmodelled, Work
from neuron_explorer.neuron.hardware import Chip
from neuron_explorer.trace.device_profile import DeviceProfile

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_ROWS = 50_000
_REASON = "the profile does not say its FLOPs or bytes"


def device_bound(trace: Trace, profile: DeviceProfile, selection: Selection, chip: Chip) -> HardwareBound:
    """For the physical cores that the profile is of, with the rates of ``chip`` in bfloat16."""
    cores = max(1, min(profile.hardware.physical_cores or 1, int(chip.cores.value)))
    peak, bandwidth = float(chip.peak("bfloat16", cores) or 1.0), chip.bandwidth(cores)
    rows = trace.sql_arrow(
        "SELECT name, file, line, min(function) AS function, count(*) AS calls, "
        "sum(greatest(flops, 0))::DOUBLE AS flops, sum(moved)::DOUBLE AS bytes, sum(duration)::DOUBLE AS ns, "
        "sum(CASE WHEN told THEN duration ELSE 0 END)::DOUBLE AS told_ns, "
        "count(*) FILTER (told) AS told_calls, sum(greatest(greatest(flops, 0) / ?, moved / ?))::DOUBLE AS floor FROM ("
        "SELECT *, greatest(bytes_read, 0) + greatest(bytes_written, 0) AS moved, "
        "(flops >= 0 OR bytes_read >= 0 OR bytes_written >= 0) AS told "
        f"FROM events WHERE {selection.where} AND kind = 'op' AND duration >= 0) "
        f"GROUP BY name, file, line ORDER BY ns DESC, name LIMIT {MOST_ROWS}",
        (peak, bandwidth),
    ).to_pylist()
    lines: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    ops: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["file"], row["line"]), []).append(row)
        ops.setdefault((row["name"],), []).append(row)
    work = _work(ops, selection)
    return HardwareBound(
        chip, cores, peak, "bfloat16", bandwidth, _bounds(lines, peak, bandwidth, True),
        _bounds(ops, peak, bandwidth, False), work.unmodelled, work, True, True,
        "Measured: FLOPs and bytes that the profile counted, over the time in which an operator's instructions ran.",
        (
            f"{cores} physical core{'s' if cores != 1 else ''} of {chip.name} with their share of HBM; the profile "
            f"is of {profile.hardware.chip or 'a chip that it does not name'}.",
            "FLOPs are those of the tensor engine, at its peak in bfloat16; work of the other engines is not in them.",
            "Operators that run side by side each count their whole time.",
        ),
    )  # fmt: skip


def _bounds(
    groups: dict[tuple[Any, ...], list[dict[str, Any]]], peak: float, bandwidth: float, by_line: bool
) -> tuple[Bound, ...]:
    return tuple(_bound(key, rows, peak, bandwidth, by_line) for key, rows in groups.items())


def _bound(key: tuple[Any, ...], rows: list[dict[str, Any]], peak: float, bandwidth: float, by_line: bool) -> Bound:
    flops, moved, ns, told, floor = (sum(r[n] for r in rows) for n in ("flops", "bytes", "ns", "told_ns", "floor"))
    compute, memory = flops / peak * 1e9, moved / bandwidth * 1e9
    modelled = told / ns if ns else None
    verdict = "" if not flops and not moved else "compute" if compute >= memory else "memory"
    return Bound(
        file=(key[0] or "") if by_line else "", line=key[1] if by_line else -1,
        function=(rows[0]["function"] or "") if by_line else "", name="" if by_line else key[0], shapes="", dtypes="",
        calls=sum(r["calls"] for r in rows), flops=round(flops), bytes=round(moved), compute_ns=compute,
        memory_ns=memory, floor_ns=floor * 1e9, host_ns=round(ns), device_ns=round(ns), modelled=modelled,
        verdict=verdict, on_chip=True,
    )  # fmt: skip


def _work(ops: dict[tuple[Any, ...], list[dict[str, Any]]], selection: Selection) -> Work:
    every = [r for rows in ops.values() for r in rows]
    total, told = _sum(every, "ns"), _sum(every, "told_ns")
    silent = {key[0]: rows for key, rows in ops.items() if not _sum(rows, "told_calls")}
    unmodelled = tuple(
        Unmodelled(name, _sum(rows, "calls"), _sum(rows, "ns"), _sum(rows, "ns") / total if total else 0.0, _REASON)
        for name, rows in silent.items()
    )
    return Work(
        (), unmodelled, selection.steps, _sum(every, "calls"), total, _sum(every, "told_calls"), told, 0, selection
    )


def _sum(rows: Iterable[dict[str, Any]], name: str) -> int:
    return round(sum(r[name] for r in rows))
