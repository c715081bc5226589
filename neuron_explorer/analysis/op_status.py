"""Which operators the device runs itself, and which of them fall back to the CPU.

On a recording of a ``neuron`` device, emulated or real, the fallbacks were seen. On a
recording of another device they are *predicted*: going down from the top, an operator with a
native kernel answers for everything inside it; one that torch puts together from others leaves
the word to its parts; any other operator would run on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.calls import Calls, Group, on_device
from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.analysis.flops import cost_of, moves_nothing
from neuron_explorer.analysis.line_counts import LineCount, tally, top_lines
from neuron_explorer.analysis.shapes import shape_text
from neuron_explorer.analysis.signature import parse
from neuron_explorer.neuron.dispatch import is_composite, is_known, is_native, native_operators
from neuron_explorer.trace.registrations import ENTRY, is_custom

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

STATUSES: Final[dict[str, str]] = {
    "fallback": "runs on the CPU: no native kernel",
    "unknown": "the lists do not say",
    "native": "has a kernel on the device",
}
"""Statuses in the order of a report."""

MOST_SHAPES: Final = 3
_Call = tuple["str | None", "str | None", "str | None"]
_SILENT: Final = ("profiler::", "neuron::", "c10d::", "autograd::", "prim::")


@dataclass(frozen=True)
class Operator:
    """An operator and how it fares. Durations are host time.

    ``calls``: in the whole run; ``steady_calls``: in steady steps. ``signatures``: distinct
    shapes, dtypes and arguments. ``bytes_to_host`` and ``bytes_to_device``: copied by its
    fallbacks in the whole run; None where that is not known.
    """

    name: str
    status: str
    calls: int
    steady_calls: int
    duration_ns: int
    signatures: int
    shapes: tuple[str, ...]
    bytes_to_host: int | None
    bytes_to_device: int | None
    lines: tuple[LineCount, ...]
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """What the statuses rest on.

    ``seen``: fallbacks were seen, not predicted. ``every``: whatever the device ran without a
    fallback is native (the emulator sees all of them). ``custom``: operators that the program
    registered, each with the device types that it has a kernel for ("" for any).
    """

    seen: bool
    every: bool
    native: frozenset[str] | None
    named: frozenset[str]
    custom: Mapping[str, frozenset[str]]


def coverage_of(metadata: Mapping[str, Any]) -> Coverage:
    """What this trace could see of fallbacks."""
    device = metadata.get("device")
    device = device if isinstance(device, Mapping) else {}
    capabilities = metadata.get("capabilities")
    fallback = capabilities.get("fallback") if isinstance(capabilities, Mapping) else None
    on_device = device.get("type") == "neuron"
    seen = on_device and isinstance(fallback, Mapping) and fallback.get("observed") is True
    named = device.get("fallback_ops")
    names = frozenset(n[:200] for n in named[:4096] if isinstance(n, str)) if isinstance(named, list) else frozenset()
    return Coverage(seen, seen and device.get("emulated") is True, native_operators(), names, _custom(metadata))


def _custom(metadata: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    entry = metadata.get(ENTRY)
    items = list(entry.items())[:4096] if isinstance(entry, dict) else []
    return {name: frozenset(d for d in devices[:64] if isinstance(d, str))
            for name, devices in items if isinstance(devices, list) and is_custom(name)}  # fmt: skip


def operators(trace: Trace, calls: Calls) -> tuple[tuple[Operator, ...], np.ndarray, np.ndarray]:
    """The operators that reach the device, fallbacks first; which events those are; which of them run natively."""
    known = coverage_of(trace.metadata)
    here = on_device(calls, trace.metadata)
    speaking, status = _speaking(calls, known, here)
    counts = tally(calls, speaking)
    members: dict[tuple[str, str], list[int]] = {}
    for position in counts.groups():
        members.setdefault((calls.groups[position].name, status[position]), []).append(position)
    copied = _copied(trace) if known.seen else {}
    found = [_operator(calls, counts, name, how, groups, copied, known) for (name, how), groups in members.items()]
    order = list(STATUSES)
    # What runs in every step comes before what ran while the program was set up.
    found.sort(key=lambda o: (order.index(o.status), o.steady_calls == 0, -o.duration_ns, o.name))
    native = speaking & calls.where([s == "native" for s in status])
    return tuple(found), speaking, native


def _speaking(calls: Calls, known: Coverage, here: np.ndarray) -> tuple[np.ndarray, list[str]]:
    fell = here & calls.where([g.kind == "fallback" for g in calls.groups])
    fell &= ~calls.covered(fell)
    status = [_status(g, known) for g in calls.groups]
    speaks = here & calls.where([s != "" and g.kind != "fallback" for g, s in zip(calls.groups, status, strict=True)])
    # An operator that has a native kernel may fall back all the same: then the fallback speaks.
    speaks &= ~calls.encloses(fell)
    speaks = fell | (speaks & ~calls.covered(fell))
    return speaks & ~calls.covered(speaks), status


def _status(group: Group, known: Coverage) -> str:
    if group.kind == "fallback":
        return "fallback"
    if group.kind not in ("op", "copy", "sync") or "::" not in group.name or group.name.startswith(_SILENT):
        return ""
    if not is_known(group.name):
        return _status_of_custom(known.custom.get(group.name))
    if group.name in known.named or group.name.removeprefix("aten::") in known.named:
        return "fallback"
    if known.native is None:
        return "" if is_composite(group.name) else "unknown"
    if is_native(group.name, known.native):
        return "native"
    if is_composite(group.name) or moves_nothing(group.name):
        return ""
    if known.every:
        return "native"
    return "unknown" if known.seen else "fallback"


def _status_of_custom(devices: frozenset[str] | None) -> str:
    """A kernel for the device is native, one for any device leaves the word to the operators inside it."""
    if devices is None:
        return "unknown"
    if devices & {"neuron", "privateuseone"}:
        return "native"
    return "" if "" in devices else "fallback"


def _operator(
    calls: Calls, counts: Any, name: str, status: str, groups: list[int], copied: dict[str, tuple[int, int]],
    known: Coverage,
) -> Operator:  # fmt: skip
    distinct: dict[_Call, int] = {}
    for position in groups:
        g = calls.groups[position]
        key = (g.shapes, g.dtypes, g.arguments)
        distinct[key] = distinct.get(key, 0) + int(counts.calls[position])
    shapes: list[str] = []
    for key in sorted(distinct, key=lambda k: -distinct[k]):
        text = shape_text(key[0])
        if text and text not in shapes:
            shapes.append(text)
    to_host: int | None = None
    to_device: int | None = None
    if status == "fallback":
        to_host, to_device = copied.get(name, (None, None)) if known.seen else _would_copy(name, distinct)
    return Operator(
        name=name,
        status=status,
        calls=int(sum(counts.calls[p] for p in groups)),
        steady_calls=int(sum(counts.steady[p] for p in groups)),
        duration_ns=int(sum(counts.duration[p] for p in groups)),
        signatures=len(distinct),
        shapes=tuple(shapes[:MOST_SHAPES]),
        bytes_to_host=to_host,
        bytes_to_device=to_device,
        lines=top_lines(calls, counts, groups),
        reason=_reason(name, status, known),
    )


def _reason(name: str, status: str, known: Coverage) -> str:
    if status == "fallback":
        if known.seen:
            return "" if name not in known.named else "named by the device"
        if name in known.custom:
            return f"predicted: the program registered it for {', '.join(sorted(known.custom[name]))} only"
        return "predicted: not on the list of native operators"
    if status == "unknown":
        return "not one of torch's own operators" if not is_known(name) else "not on the list of native operators"
    return "the program registered a kernel for the device" if name in known.custom else ""


def _would_copy(name: str, distinct: dict[_Call, int]) -> tuple[int | None, int | None]:
    """Inputs to the host and results back, where the shapes say so."""
    inputs = results = 0
    complete, modelled = True, True
    for (shapes, dtypes, arguments), number in distinct.items():
        signature = parse(shapes, dtypes, arguments)
        if signature is None or signature.cut:
            complete = False
            continue
        inputs += number * _input_bytes(signature.tensors)
        cost = cost_of(name, shapes, dtypes, arguments)
        modelled = modelled and cost is not None
        results += number * (cost.bytes_written(narrowed=True) if cost is not None else 0)
    return (inputs if complete else None), (results if complete and modelled else None)


def _input_bytes(tensors: Any) -> int:
    from neuron_explorer.analysis.op_cost import item_bytes

    return sum(t.elements * item_bytes(t.dtype, narrowed=True) for t in tensors)


def _copied(trace: Trace) -> dict[str, tuple[int, int]]:
    """Bytes that the fallbacks of each operator copied: to the host, to the device."""
    sums: dict[str, tuple[int, int]] = {}
    rows = trace.sql_arrow(
        "SELECT coalesce(name, '') AS name, left(detail, 4096) AS detail, count(*) AS n FROM events "
        "WHERE kind = 'fallback' AND detail IS NOT NULL GROUP BY 1, 2 LIMIT 200000"
    ).to_pylist()
    for row in rows:
        detail = detail_of(row["detail"])
        before = sums.get(row["name"], (0, 0))
        sums[row["name"]] = (
            before[0] + row["n"] * whole(detail.get("bytes_to_host")),
            before[1] + row["n"] * whole(detail.get("bytes_to_device")),
        )
    return sums


def whole(value: Any) -> int:
    """A number of bytes as it stands in a row's detail; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 1 << 62 else 0
