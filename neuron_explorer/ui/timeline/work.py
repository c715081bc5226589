"""What an operator's call has to do, the least time that takes on a chip, and what the device took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_explorer.analysis.op_cost import Cost
    from neuron_explorer.neuron.hardware import Chip
    from neuron_explorer.trace.store import Trace

MAX_SHAPES: Final = 20_000


def work_of(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """FLOPs, bytes and floors of an operator's call; None where the event is no operator.

    ``floors``: for one device of each chip ns and what bounds it. ``reason``: why there is no
    figure. All of it comes from shapes: nothing here was measured.
    """
    # Imported here: the models of some hundred operators are not needed before a first click.
    from neuron_explorer.analysis.flops import cost_of, why_not
    from neuron_explorer.analysis.readiness_words import arithmetic, size
    from neuron_explorer.neuron.hardware import CHIPS

    if event["kind"] not in ("op", "fallback"):
        return None
    texts = [event[column] for column in ("shapes", "dtypes", "arguments")]
    if any(text is not None and len(text) > MAX_SHAPES for text in texts):
        return {"reason": "shapes too long"}
    try:
        cost = cost_of(event["name"] or "", *texts)
        reason = "" if cost is not None else why_not(event["name"] or "", *texts)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        cost, reason = None, "shapes that cannot be read"  # a trace may hold anything
    if cost is None:
        return {"reason": reason}
    moved = cost.bytes_read() + cost.bytes_written()
    if not cost.flops and not moved:
        return {"reason": "metadata only, nothing is computed or moved"}
    return {
        "flops": arithmetic(cost.flops) if cost.flops else "none",
        "moved": f"{size(cost.bytes_read())} read, {size(cost.bytes_written())} written",
        "intensity": cost.flops / moved if moved else None,
        "floors": [_floor(cost, chip) for chip in CHIPS.values()],
        "reason": "",
    }


def _floor(cost: Cost, chip: Chip) -> dict[str, Any]:
    """The floor on one device of a chip, as analysis/roofline.py takes it."""
    from neuron_explorer.analysis.op_cost import MATRIX
    from neuron_explorer.analysis.roofline import matrix_rate

    cores = int(chip.cores_per_device.value)
    moving = (cost.bytes_read(narrowed=True) + cost.bytes_written(narrowed=True)) / chip.bandwidth(cores)
    rate = matrix_rate(cost, chip, cores)[0] if cost.unit == MATRIX else chip.elementwise_peak(cores)
    computing = cost.flops / rate
    return {"chip": chip.name, "ns": max(moving, computing) * 1e9,
            "bound": "memory" if moving > computing else "arithmetic"}  # fmt: skip


def has_device(trace: Trace) -> bool:
    """Whether the trace's device runs work beside the host."""
    device = trace.metadata.get("device")
    return isinstance(device, dict) and device.get("type") not in ("cpu", "unknown", "", None)


def device_time(trace: Trace, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the device ran for an event and for those in it; None where it is no work of the host.

    ``count`` executions, ``total`` ns on the device (shares, where one served several), and
    ``until`` ns from the event's start on the host to the end of the last one.
    """
    if not has_device(trace) or event["kind"] not in ("op", "fallback", "launch", "autograd", "range"):
        return None
    end = event["start"] + max(event["duration"], 0)
    found = trace.sql_arrow(
        'WITH inside AS (SELECT id FROM events WHERE lane = ? AND "start" BETWEEN ? AND ? AND depth >= ?), '
        "ran AS (SELECT id, parent, kind, duration FROM events "
        "WHERE kind IN ('device', 'link') AND correlation IN (SELECT id FROM inside)) "
        "SELECT (SELECT count(*) FROM ran) AS n, (SELECT coalesce(sum(greatest(duration, 0)), 0) FROM ran) AS total, "
        # A share ends when the whole execution does.
        '(SELECT max("start" + greatest(duration, 0)) FROM events WHERE kind = \'device\' '
        "AND id IN (SELECT CASE kind WHEN 'link' THEN parent ELSE id END FROM ran)) AS last",
        (event["lane"], event["start"], end, event["depth"]),
    ).to_pylist()[0]
    if not found["n"]:
        return {"count": 0}
    return {"count": found["n"], "total": int(found["total"]), "until": max(end, found["last"] or end) - event["start"]}
