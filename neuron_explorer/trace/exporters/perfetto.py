"""Perfetto's own format: packets of protocol buffers, written as they come.

Slices are a begin and an end, in the order of their times. Names, places and texts of arguments are written
once and named by number after that. A file is packed inside, a part at a time (``compressed_packets``), as
Perfetto packs its own; where its name asks for gzip the whole is packed instead.
Format: https://perfetto.dev/docs/reference/trace-packet-proto
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from . import sink
from .batches import Batch, batches
from .call_stacks import CallStacks
from .details import Detail, number_in, parsed
from .perfetto_arrows import Arrows
from .perfetto_interned import Interned
from .perfetto_tracks import Counters, Lanes
from .wire import double, fixed64, integer, message, varint

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "Perfetto"]

_TEXTS: Final = ("function", "attribution", "module", "phase", "period", "shapes", "strides", "dtypes", "arguments",
                 "device", "compile_id")  # fmt: skip
_COLUMNS: Final = ("kind", "name", "start", "duration", "self", "id", "lane", "stack", "file", "line", "step",
                   "sequence", "detail", *_TEXTS)  # fmt: skip
_OWN_STACK: Final = ("stack", "library_frame", "backward_call")
_INSTANTS: Final = ("graph_break", "warning")
_BLOCKS: Final = ("allocate", "release", "found")
_BEGIN, _END, _INSTANT, _COUNTER = (integer(9, kind) for kind in (1, 2, 3, 4))
_SEQUENCE: Final = integer(10, 1)
_NEEDED, _CLEARED = _SEQUENCE + integer(13, 2), _SEQUENCE + integer(13, 3)
_PART: Final = 1 << 19
_KEPT_ROWS: Final = 200_000
"""Texts are forgotten after this many rows at the earliest: a part of the trace brings all of its own at once."""
_LEVEL: Final = 4
_LAST: Final = (1 << 63) - 1


class Perfetto:
    """The exporter; see the module."""

    name: Final = "perfetto"
    title: Final = "a trace for Perfetto (protocol buffers)"
    suffix: Final = ".pftrace"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        with sink.text(output) as file:
            packets = _Packets(file, packed=output.suffix != ".gz")
            writer = _Writer(trace, packets, Arrows(trace, window))
            for batch in batches(trace, _COLUMNS, window, progress):
                writer.add(batch)
            writer.finish()
            packets.finish()
        return output.stat().st_size


class _Packets:
    """Packets on their way to the file."""

    def __init__(self, file: IO[bytes], *, packed: bool) -> None:
        self._file, self._packed = file, packed
        self._held: list[bytes] = []
        self._size = 0

    def put(self, *parts: bytes) -> None:
        """Write one packet, given as its fields."""
        body = b"".join(parts)
        packet = b"\x0a" + varint(len(body)) + body
        self._held.append(packet)
        self._size += len(packet)
        if self._size >= _PART:
            self.finish()

    def finish(self) -> None:
        """Write what is held."""
        whole = b"".join(self._held)
        self._held.clear()
        self._size = 0
        if whole:
            self._file.write(message(1, message(50, zlib.compress(whole, _LEVEL))) if self._packed else whole)


class _Writer:
    def __init__(self, trace: Trace, packets: _Packets, arrows: Arrows) -> None:
        self._packets, self._arrows = packets, arrows
        self._interned = Interned()
        self._stacks = CallStacks(trace)
        self._rows = 0
        self._open: list[tuple[int, int]] = []  # (end, track) of slices that have begun
        self._say = _sayers(self._interned)
        self._since = 0
        self._stacked: dict[int, bytes] = {}
        self._held: dict[tuple[int, str], int] = {}
        self._flags = _CLEARED
        # Trace time 0 is the clock of boot at 0; the wall clock then, where it is known.
        clocks = [message(1, integer(1, 6), integer(2, 0))]
        if trace.metadata["start_unix_ns"] > 0:
            clocks.append(message(1, integer(1, 1), integer(2, trace.metadata["start_unix_ns"])))
        packets.put(_CLEARED, integer(87, 1), message(6, *clocks, integer(2, 6)))
        self._lanes = Lanes(trace, lambda body: packets.put(_SEQUENCE, body))
        self._counters = Counters(self._lanes)

    def add(self, batch: Batch) -> None:
        if self._interned.full() and self._since > _KEPT_ROWS:
            self._forget()
        leaving, reached = self._arrows.of(self._rows, batch.rows)
        row = self._rows
        opened, lanes, say, place = self._open, self._lanes, self._say, self._interned.place
        whole, put = self._interned.integer, self._put
        texts = zip(*(batch.texts(name, say[name]) for name in _TEXTS), strict=True)
        rows = zip(
            batch.texts("kind"), batch.texts("kind", say["kind"]), batch.texts("name"),
            batch.texts("name", say["name"]), batch.ints("start"), batch.ints("duration"), batch.ints("self"),
            batch.ints("id"), batch.ints("lane"), batch.ints("stack"), batch.texts("file"), batch.ints("line"),
            batch.texts("function"), batch.texts("attribution"), batch.ints("step"), batch.ints("sequence"),
            batch.texts("detail", parsed), batch.texts("detail", say["detail"]), batch.texts("device"), texts,
            strict=True,
        )  # fmt: skip
        for (kind, category, name, named, start, duration, own, event, lane, stack, file, line, function, how, step,
             sequence, detail, document, device, about) in rows:  # fmt: skip
            row += 1
            start = min(max(start, 0), _LAST)
            while opened and opened[0][0] <= start:
                end, track = heapq.heappop(opened)
                put(end, _END + b"\x58" + varint(track))
            if kind == "counter" or kind == "memory":
                self._counter(kind, name or "?", start, lane, device, detail)
                continue
            parts = [category, named, *about, document, whole("event", event)]
            if file:
                parts.append(place(file, line, function or ""))
            if step >= 0:
                parts.append(whole("step", step))
            if sequence >= 0:
                parts.append(whole("sequence", sequence))
            if own >= 0:
                parts.append(whole("self (ns)", own))
            if stack >= 0 and how in _OWN_STACK:
                parts.append(self._stack(stack))
            parts += [fixed64(47, target + 1) for target in leaving.get(row - 1, ())]
            if row - 1 in reached:
                parts.append(fixed64(48, row))
            said = b"".join(parts)
            if kind in _INSTANTS:
                put(start, _INSTANT + integer(11, lanes.first(lane)) + said)
                continue
            last = min(start + duration, _LAST)
            track = lanes.of(lane, start, last if duration >= 0 else float("inf"))
            put(start, _BEGIN + b"\x58" + varint(track) + said)
            if duration >= 0:
                heapq.heappush(opened, (last, track))
        self._rows = row
        self._since += batch.rows

    def finish(self) -> None:
        """Write the ends that are left."""
        while self._open:
            end, track = heapq.heappop(self._open)
            self._put(end, _END + integer(11, track))

    def _put(self, at: int, event: bytes) -> None:
        pending = self._interned.pending
        if pending:
            extra = message(12, *pending)
            pending.clear()
        else:
            extra = b""
        self._packets.put(b"\x40", varint(at), self._flags, b"\x5a", varint(len(event)), event, extra)
        self._flags = _NEEDED

    def _forget(self) -> None:
        """Begin anew with texts: what was made of them names their numbers, so it goes too."""
        self._interned.clear()
        self._stacked.clear()
        self._flags = _CLEARED
        self._since = 0
        self._say = _sayers(self._interned)

    def _stack(self, frame: int) -> bytes:
        known = self._stacked.get(frame)
        if known is None:
            said = self._stacks.text(frame)
            known = self._stacked[frame] = self._interned.said("stack", said) if said else b""
        return known

    def _counter(self, kind: str, name: str, start: int, lane: int, device: str | None, detail: Detail) -> None:
        process = self._lanes.process(lane)
        if kind == "counter" or name == "level":
            title = name if kind == "counter" else f"{device or ''} allocator".strip()
            values = {k: v for k, v in detail.values.items() if isinstance(v, (int, float)) and type(v) is not bool}
            for key, value in values.items():
                full = title if len(values) == 1 and kind == "counter" else f"{title} {key}"
                self._sample(process, full, start, value, of_bytes=kind == "memory" or "bytes" in key)
            return
        size = number_in(detail.values, "bytes")
        if size is None or name not in _BLOCKS:
            return
        where = process, device or "cpu"
        if where in self._held or len(self._held) < 10_000:
            self._held[where] = self._held.get(where, 0) + size
        self._sample(process, f"memory {where[1]}", start, self._held.get(where, 0), of_bytes=True)

    def _sample(self, process: int, name: str, start: int, value: float, *, of_bytes: bool) -> None:
        track = self._counters.of(process, name, of_bytes=of_bytes)
        if track is None:
            return
        whole = isinstance(value, int) and -_LAST <= value <= _LAST
        said = integer(30, int(value)) if whole else double(44, min(max(value, -1e300), 1e300))
        self._put(start, _COUNTER + integer(11, track) + said)


def _sayers(interned: Interned) -> dict[str, Callable[[str | None], bytes]]:
    """What makes of a text the piece of an event that says it; new ones after texts were forgotten."""

    def argument(name: str) -> Callable[[str | None], bytes]:
        return lambda text: interned.said(name, text) if text and text != "[]" else b""

    def document(text: str | None) -> bytes:
        values = parsed(text).values
        return interned.nested("detail", values) if values else b""

    return {name: argument(name) for name in _TEXTS} | {
        "kind": lambda text: integer(3, interned.category(text or "?")),
        "name": lambda text: integer(10, interned.name(text or "?")),
        "detail": document,
    }


EXPORTER: Final = Perfetto()
