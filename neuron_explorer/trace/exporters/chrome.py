"""Pieces of Chrome's JSON that its dialects share."""

from __future__ import annotations

import json
from typing import IO, Any

from .places import Place, Places

__all__ = ["Events", "flow", "micros"]


def micros(nanoseconds: int) -> str:
    """Microseconds as decimal text, exact to the nanosecond."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def flow(number: int, category: str, start: int, source: Place, at: int, target: Place) -> list[str]:
    """The two ends of an arrow; times in ns."""
    head = f'"cat":"{category}","name":"{category}","id":{number}'
    return [
        f'{{"ph":"s",{head},"pid":{source.pid},"tid":{source.tid},"ts":{micros(start)}}}',
        f'{{"ph":"f",{head},"pid":{target.pid},"tid":{target.tid},"ts":{micros(at)},"bp":"e"}}',
    ]


class Events:
    """The list of events in a file, one a line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._first = True

    def put(self, lines: list[str]) -> None:
        """Write events, given as JSON in ASCII."""
        if lines:
            self._file.write((("\n" if self._first else ",\n") + ",\n".join(lines)).encode("ascii"))
            self._first = False

    def name(self, places: Places) -> None:
        """Write the events that name processes and threads."""
        self.put([_metadata(*entry) for entry in places.metadata()])


def _metadata(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> str:
    return f'{{"ph":"M","name":"{name}","pid":{pid},"tid":{tid},"ts":0,"args":{json.dumps(arguments)}}}'
