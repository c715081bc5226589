"""Begin and end events, and asynchronous ones, as slices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .losses import Losses
from .records import RECORD
from .texts import Texts

__all__ = ["AsyncPairs", "Pairs"]

MAX_OPEN: Final = 1_000_000
_BEGINS: Final = {ord("b"), ord("S")}
_ENDS: Final = {ord("e"), ord("F")}


class _Open:
    """Slices that have begun, in stacks."""

    def __init__(self, texts: Texts, losses: Losses) -> None:
        self.texts = texts
        self.losses = losses
        self.open: dict[Any, list[Any]] = {}
        self.number = 0

    def begin(self, key: Any, record: Any) -> bool:
        if self.number >= MAX_OPEN:
            self.losses.add("begins beyond a million that are open")
            return False
        self.open.setdefault(key, []).append(record)
        self.number += 1
        return True

    def end(self, key: Any, record: Any) -> Any:
        """The slice that ends here; None where nothing has begun."""
        stack = self.open.get(key)
        if not stack:
            self.losses.add("ends without a begin", 1, int(record["offset"]))
            return None
        at = len(stack) - 1
        name = int(record["name"])
        if name and int(stack[at]["name"]) != name:
            # An end that names another slice closes that one, as viewers do.
            at = next((i for i in range(at, -1, -1) if int(stack[i]["name"]) == name), at)
        begun = stack.pop(at)
        self.number -= 1
        duration = int(record["start"]) - int(begun["start"])
        if duration < 0:
            self.losses.add("events with an impossible duration (dur)", 1, int(begun["offset"]))
        begun["duration"] = max(duration, -1)
        rest = int(record["rest"])
        if rest and rest != int(begun["rest"]):
            own = int(begun["rest"])
            begun["rest"] = self.texts.add(self.texts.raw(own) + b"," + self.texts.raw(rest)) if own else rest
        return begun

    def rest(self) -> np.ndarray:
        """What has begun and never ended; counted."""
        left = [record for stack in self.open.values() for record in stack]
        self.open, self.number = {}, 0
        result = _array(left)
        if left:
            result["duration"] = -1
            self.losses.add("begins without an end", len(left), int(result["offset"].min()))
        return result


class Pairs(_Open):
    """``B`` and ``E``: one stack for each thread, in the order of the file."""

    def add(self, records: np.ndarray) -> np.ndarray:
        """The slices that ended."""
        ended = []
        begin = ord("B")
        for record in records:
            key = int(record["pid"]), int(record["tid"])
            if record["phase"] == begin:
                self.begin(key, record)
            elif (slice_ := self.end(key, record)) is not None:
                ended.append(slice_)
        return _array(ended)


class AsyncPairs(_Open):
    """``b``, ``n`` and ``e`` (and the older ``S``, ``T``, ``p``, ``F``): stacks by category and id."""

    def add(self, records: np.ndarray) -> np.ndarray:
        """The slices that ended, and instants."""
        done = []
        for record in records:
            phase = int(record["phase"])
            key = int(record["category"]), int(record["id"]), int(record["pid"]) if not record["id"] else -1
            if phase in _BEGINS:
                self.begin(key, record)
            elif phase in _ENDS:
                if (ended := self.end(key, record)) is not None:
                    done.append(ended)
            else:
                record["duration"] = 0
                done.append(record)
        return _array(done)


def _array(records: list[Any]) -> np.ndarray:
    result = np.zeros(len(records), RECORD)
    for i, record in enumerate(records):
        result[i] = record
    return result
