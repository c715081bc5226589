"""Kineto's JSON: what torch.profiler writes and HTA, TensorBoard's plugin and Perfetto read.

Times are microseconds with three decimals, made of integers: they never pass through a floating-point
number. What torch.profiler has no place for stands under names of its own in ``args`` (``kind``, ``file``,
``line``, ``function``, ``module``, ``phase`` …); they are few distinct texts, so they pack well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from . import sink
from .batches import Batch, batches
from .call_stacks import CallStacks
from .chrome import Events, flow, micros
from .details import number_in, parsed
from .kineto_arguments import Signatures, quoted
from .kineto_categories import Said, said
from .kineto_header import header, part_of_microsecond
from .links import LINKED, Ends
from .places import Place, Places

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "Kineto"]

_COLUMNS: Final = (
    "kind", "name", "start", "duration", "id", "parent", "lane", "stack", "file", "line", "function", "attribution",
    "module", "phase", "period", "sequence", "device", "shapes", "strides", "dtypes", "arguments", "correlation",
    "external_id", "correlation_id", "compile_id", "detail",
)  # fmt: skip
_OWN_STACK: Final = ("stack", "library_frame", "backward_call")
_DEVICE_TYPES: Final = {"cpu": 0, "cuda": 1, "hip": 6, "xla": 9, "xpu": 12, "mps": 13, "hpu": 15, "mtia": 19}
_PRIVATE: Final = 20
"""Numbers of ``c10::DeviceType`` (c10/core/DeviceType.h); 20 is PrivateUse1, which neuron devices are."""
_WORK: Final = frozenset({
    "bytes", "memory bandwidth (GB/s)", "context", "queued", "grid", "block", "registers per thread", "shared memory",
    "blocks per SM", "warps per SM", "est. achieved occupancy %", "Collective name", "In msg nelems", "Out msg nelems",
    "Group size", "dtype", "In split size", "Out split size", "Process Group Name", "Process Group Description",
    "Process Group Ranks", "Rank", "Global rank start", "Global rank stride", "Src Rank", "Dst Rank", "Seq",
})  # fmt: skip
_LONGEST: Final = 20_000
_OWN_TEXTS: Final = ("file", "function", "module", "phase", "period", "attribution", "compile_id")


class Kineto:
    """The exporter; see the module."""

    name: Final = "kineto"
    title: Final = "a trace for torch's tools (Kineto JSON)"
    suffix: Final = ".pt.trace.json.gz"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        with sink.text(output) as file:
            file.write(header(trace))
            _Events(trace, file, window).write(window, progress)
            file.write(b"\n]}\n")
        return output.stat().st_size


class _Events:
    def __init__(self, trace: Trace, file: IO[bytes], window: Window | None) -> None:
        self._trace, self._events = trace, Events(file)
        self._places = Places(trace, steps_on_threads=True)
        self._ends = Ends(trace, window)
        self._shift = part_of_microsecond(trace)
        self._signatures = Signatures()
        self._stacks = CallStacks(trace)
        self._said: dict[tuple[str, str, bool, Any], Said] = {}
        # Of a trace that was made from another tool's, the numbers are that tool's.
        self._imported = trace.metadata["recorder"] == "import"

    def write(self, window: Window | None, progress: Progress | None) -> None:
        for batch in batches(self._trace, _COLUMNS, window, progress):
            self._events.put(self._batch(batch))
        self._events.name(self._places)

    def _batch(self, batch: Batch) -> list[str]:
        lines: list[str] = []
        own = zip(*(batch.texts(name, _member(name)) for name in _OWN_TEXTS), strict=True)
        rows = zip(
            batch.texts("kind", _text), batch.texts("name", _text), batch.ints("start"), batch.ints("duration"),
            batch.ints("id"), batch.ints("parent"), batch.ints("lane"), batch.ints("stack"), batch.ints("line"),
            batch.ints("sequence"),
            batch.ints("correlation"), batch.ints("external_id"), batch.ints("correlation_id"),
            batch.texts("attribution"), batch.texts("device"), batch.texts("detail", parsed), own,
            batch.texts("shapes"), batch.texts("strides"), batch.texts("dtypes"), batch.texts("arguments"),
            strict=True,
        )  # fmt: skip
        for (kind, name, start, duration, event, parent, lane, stack, line, sequence, target, external, correlation,
             how, device, detail, texts, shapes, strides, dtypes, arguments) in rows:  # fmt: skip
            place = self._places.of(lane)
            start += self._shift
            form = self._form(kind, name, place, detail.category)
            at = f'"pid":{place.pid},"tid":{place.tid},"ts":{micros(start)}'
            if form.phase == "C":
                # Viewers draw a line for each argument, so what is no value stands beside them.
                beside = [form.own, *texts, f',"line":{line}' if line >= 0 else "",
                          "" if device is None else f',"device_name":{quoted(device)}', detail.member]  # fmt: skip
                lines.append(f'{{"ph":"C",{form.head},{at},"args":{detail.numbers or "{}"}{"".join(beside)}}}')
                continue
            members = [f'"Ev Idx":{event}']
            if external >= 0 or not self._imported:
                # Work on a device carries the number of the operator that launched it.
                launcher = target if place.device >= 0 and target >= 0 else event
                members.append(f',"External id":{external if external >= 0 else launcher}')
            if correlation >= 0:
                members.append(f',"correlation":{correlation}')
            if sequence >= 0:
                members.append(f',"Sequence number":{sequence}')
            end = self._ends.of(target) if target >= 0 and kind in LINKED else None
            if kind == "autograd":
                members.append(f',"Fwd thread id":{end[1] + 1 if end else 0}' if sequence >= 0 else "")
            if place.device >= 0:
                # To readers, what names a stream is work on it; a range around such work is none.
                if form.category != "gpu_user_annotation":
                    members.append(f',"device":{place.device},"stream":{place.stream}{_work(detail.values)}')
            elif kind == "memory":
                members.append(_memory(form, target, device, detail.values))
            members.append(self._signatures.members(shapes, strides, dtypes, arguments))
            # An allocation inside an operator has the operator's stack.
            if stack >= 0 and how in _OWN_STACK and (kind != "memory" or parent < 0):
                members.append(self._stacks.member(stack))
            members.append(form.own)
            members += texts
            if line >= 0:
                members.append(f',"line":{line}')
            if device is not None:
                members.append(f',"device_name":{quoted(device)}')
            members.append(detail.member)
            if form.phase == "i":
                head = f'{{"ph":"i","s":"t",{form.head},{at}'
            elif duration >= 0:
                head = f'{{"ph":"X",{form.head},{at},"dur":{micros(duration)}'
            else:
                head = f'{{"ph":"B",{form.head},{at}'  # it never ended: a begin without an end
            lines.append(f'{head},"args":{{{"".join(members)}}}}}')
            arrow = _arrow(kind, sequence, place) if end is not None else ""
            if end is not None and arrow:
                lines += flow(event, arrow, end[0] + self._shift, self._places.of(end[1]), start, place)
        return lines

    def _form(self, kind: str, name: str, place: Place, category: Any) -> Said:
        key = kind, name, place.device >= 0, category
        known = self._said.get(key)
        if known is None:
            if len(self._said) > 100_000:
                self._said.clear()
            known = self._said[key] = said(kind, name, place.device >= 0, category)
        return known


def _text(text: str | None) -> str:
    return text or ""


def _member_maker(name: str) -> Any:
    def member(text: str | None) -> str:
        return "" if text is None else f',"{name}":{quoted(text)}'

    return member


_MEMBERS: Final = {name: _member_maker(name) for name in _OWN_TEXTS}


def _member(name: str) -> Any:
    return _MEMBERS[name]


def _work(detail: dict[str, Any]) -> str:
    """What readers look for beside a kernel, a copy or a collective, where they look for it."""
    return "".join(
        f",{quoted(key)}:{json.dumps(value, separators=(',', ':'))}"
        for key, value in detail.items()
        if key in _WORK and len(str(value)) < _LONGEST
    )


def _arrow(kind: str, sequence: int, place: Place) -> str:
    """The category of the arrow that leads to an event; empty for none."""
    if place.device >= 0:
        return "ac2g"
    if kind == "launch":
        return "compile"
    return "fwdbwd" if kind == "autograd" and sequence >= 0 else ""


def _memory(form: Said, block: int, device: str | None, detail: dict[str, Any]) -> str:
    """What torch.profiler says of a block. Without an address, the block's number stands for it."""
    if form.name != "[memory]":
        return f',"Addr":{block}' if block >= 0 else ""
    kind, _, index = (device or "cpu").partition(":")
    members = [f',"Device Type":{_DEVICE_TYPES.get(kind, _PRIVATE)},"Device Id":{index if index.isdecimal() else -1}']
    for name, key, otherwise in (
        ("Bytes", "bytes", None), ("Addr", "address", block if block >= 0 else None),
        ("Total Allocated", "allocated", None), ("Total Reserved", "reserved", None),
    ):  # fmt: skip
        value = number_in(detail, key)
        value = otherwise if value is None else value
        if value is not None:
            members.append(f',"{name}":{value}')
    return "".join(members)


EXPORTER: Final = Kineto()
