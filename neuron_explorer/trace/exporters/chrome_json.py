"""Chrome JSON, for viewers that read nothing else: slices that overlap side by side, arrows, counters, named lanes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from . import sink
from .batches import Batch, batches
from .chrome import Events, flow, micros
from .details import number_in, parsed
from .kineto_arguments import quoted
from .links import LINKED, Ends
from .places import Places
from .tracks import Tracks

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "ChromeJson"]

_TEXTS: Final = ("function", "attribution", "module", "phase", "period", "shapes", "strides", "dtypes", "arguments",
                 "device", "compile_id")  # fmt: skip
_COLUMNS: Final = ("kind", "name", "start", "duration", "self", "id", "lane", "file", "line", "step", "sequence",
                   "correlation", "detail", *_TEXTS)  # fmt: skip
_INSTANTS: Final = ("graph_break", "warning")
_ARROWS: Final = {"autograd": "forward to backward", "launch": "compilation to launch"}
_BLOCKS: Final = ("allocate", "release", "found")


class ChromeJson:
    """The exporter; see the module."""

    name: Final = "chrome"
    title: Final = "a trace for viewers of Chrome JSON"
    suffix: Final = ".chrome.json.gz"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        with sink.text(output) as file:
            file.write(b'{"displayTimeUnit":"ns","traceEvents":[')
            writer = _Writer(trace, file, window)
            for batch in batches(trace, _COLUMNS, window, progress):
                writer.add(batch)
            writer.finish()
            file.write(b"\n]}\n")
        return output.stat().st_size


class _Writer:
    def __init__(self, trace: Trace, file: IO[bytes], window: Window | None) -> None:
        self._events = Events(file)
        self._places = Places(trace, steps_on_threads=False)
        self._tracks = Tracks(self._places)
        self._ends = Ends(trace, window)
        self._held: dict[tuple[int, str], int] = {}

    def add(self, batch: Batch) -> None:
        lines: list[str] = []
        texts = zip(*(batch.texts(name, _MEMBERS[name]) for name in _TEXTS), strict=True)
        rows = zip(
            batch.texts("kind", _text), batch.texts("name", _text), batch.ints("start"), batch.ints("duration"),
            batch.ints("self"), batch.ints("id"), batch.ints("lane"), batch.texts("file"), batch.ints("line"),
            batch.ints("step"), batch.ints("sequence"), batch.ints("correlation"), batch.texts("detail", parsed),
            batch.texts("device"), texts, strict=True,
        )  # fmt: skip
        for (kind, name, start, duration, own, event, lane, file, line, step, sequence, target, detail, device,
             members) in rows:  # fmt: skip
            if kind == "counter" or (kind == "memory" and name == "level"):
                pid = self._places.of(lane).pid
                if detail.numbers:
                    name = f"{device or ''} allocator".strip() if kind == "memory" else name
                    lines.append(_counter(name, pid, start, detail.numbers))
                continue
            if kind == "memory":
                size = number_in(detail.values, "bytes")
                if size is not None and name in _BLOCKS:
                    lines.append(self._memory(lane, device or "cpu", start, size))
                continue
            instant = kind in _INSTANTS
            place = self._places.of(lane) if instant else self._tracks.of(lane, start, duration)
            place_text = f',"source":{quoted(f"{file}:{line}")}' if file else ""
            numbers = f',"step":{step}' if step >= 0 else ""
            numbers += f',"sequence":{sequence}' if sequence >= 0 else ""
            numbers += f',"self (ns)":{own}' if own >= 0 else ""
            arguments = f'"event":{event}{place_text}{"".join(members)}{numbers}{detail.member}'
            head = f'"cat":{quoted(kind)},"name":{quoted(name or "?")},"pid":{place.pid},"tid":{place.tid},' \
                   f'"ts":{micros(start)}'  # fmt: skip
            if instant:
                lines.append(f'{{"ph":"i","s":"t",{head},"args":{{{arguments}}}}}')
            elif duration >= 0:
                lines.append(f'{{"ph":"X",{head},"dur":{micros(duration)},"args":{{{arguments}}}}}')
            else:
                lines.append(f'{{"ph":"B",{head},"args":{{{arguments}}}}}')
            end = self._ends.of(target) if target >= 0 and kind in LINKED else None
            if end is not None and (kind != "autograd" or sequence >= 0):
                category = _ARROWS.get(kind, "launch")
                lines += flow(event, category, end[0], self._places.of(end[1]), start, place)
        self._events.put(lines)

    def finish(self) -> None:
        self._events.name(self._places)

    def _memory(self, lane: int, device: str, start: int, size: int) -> str:
        key = self._places.of(lane).pid, device
        if key in self._held or len(self._held) < 10_000:
            self._held[key] = self._held.get(key, 0) + size
        return _counter(f"memory {device}", key[0], start, f'{{"bytes":{self._held.get(key, 0)}}}')


def _counter(name: str, pid: int, start: int, values: str) -> str:
    return f'{{"ph":"C","name":{quoted(name)},"pid":{pid},"tid":0,"ts":{micros(start)},"args":{values}}}'


def _text(text: str | None) -> str:
    return text or ""


def _member(name: str) -> Callable[[str | None], str]:
    def member(text: str | None) -> str:
        return "" if text is None or text == "[]" else f',"{name}":{quoted(text)}'

    return member


_MEMBERS: Final = {name: _member(name) for name in _TEXTS}

EXPORTER: Final = ChromeJson()
