"""Which events of a window are work of, or waits for, an accelerator, and what they moved.

Operators on several devices are copies, reading a scalar is a wait. The emulated device says
more: a range around every operator that it runs on the CPU, with the bytes copied each way
inside it, and an event for every artifact that it compiles. Those take the name and the
shapes of the operator that they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from . import spool
from .item_bytes import ITEM_BYTES
from .lookups import (
    ARTIFACT,
    COPY,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    DEVICE_COPY,
    FALLBACK,
    NAMES_DEVICE,
    READ_SCALAR,
    TO_COPY,
    Lookups,
)
from .rows import Rows, Thread

_ALWAYS: Final = DEVICE_COPY | FALLBACK | COPY_TO_HOST | COPY_TO_DEVICE | ARTIFACT
_MAX_LOOK: Final = 16


@dataclass(frozen=True)
class DeviceWork:
    """Positions among the picked rows (``row``), each with its kind and its detail text ("" for none).

    The positions ``named`` take name and signature of the window's rows ``after``.
    """

    row: np.ndarray
    kind: np.ndarray
    detail: list[str]
    named: np.ndarray
    after: np.ndarray


_NOTHING: Final = DeviceWork(*(np.zeros(0, np.int64),) * 2, [], *(np.zeros(0, np.int64),) * 2)


def device_work(
    rows: Rows, threads: list[Thread], lookups: Lookups, picked: np.ndarray, record: np.ndarray,
    codes: Mapping[str, int],
) -> DeviceWork:  # fmt: skip
    """The events of ``picked`` (with record kinds ``record``) that concern a device; ``codes``: of kinds."""
    traits = lookups.traits[rows.name]
    called = (record == spool.OP) | (record == spool.RANGE)
    mine, signature = traits[picked], rows.signature[picked]
    possible = (mine & _ALWAYS) != 0
    possible |= ((mine & READ_SCALAR) != 0) & lookups.on_device[signature]
    possible |= ((mine & COPY) != 0) & lookups.crosses[signature]
    possible |= ((mine & TO_COPY) != 0) & lookups.converts[signature]
    candidates = np.flatnonzero(called & possible)
    if not len(candidates):
        return _NOTHING
    window = _Window(rows, threads, lookups, traits)
    found: list[tuple[int, int, str]] = []
    named: list[tuple[int, int]] = []
    for position in candidates.tolist():
        row = int(picked[position])
        outcome = _classify(window, row)
        if outcome is None:
            continue
        kind, document = outcome
        found.append((position, codes[kind], json.dumps(document) if document else ""))
        parent = int(rows.parent[row])
        if kind in ("fallback", "compile") and parent >= 0 and rows.kind[parent] == spool.OP:
            named.append((position, parent))
    if not found:
        return _NOTHING
    at, kinds, details = zip(*found, strict=True)
    pairs = np.array(named, np.int64).reshape(-1, 2)
    return DeviceWork(np.array(at, np.int64), np.array(kinds, np.int64), list(details), pairs[:, 0], pairs[:, 1])


class _Window:
    """A window's rows and what they say, each signature read once."""

    def __init__(self, rows: Rows, threads: list[Thread], lookups: Lookups, traits: np.ndarray) -> None:
        self.rows, self.threads, self.lookups, self.traits = rows, threads, lookups, traits
        self._moved: dict[tuple[int, int], dict[str, Any]] = {}
        self._numbers: dict[int, int] = {}
        self.has_child = np.zeros(len(rows), bool)
        self.has_child[rows.parent[rows.parent >= 0]] = True
        self._below: dict[int, list[tuple[int, int]]] | None = None

    def number(self, signature: int) -> int:
        """The first argument, a count of bytes; -1 when it is none."""
        known = self._numbers.get(signature)
        if known is None:
            values = self.arguments(signature)
            known = values[0] if values and type(values[0]) is int and values[0] >= 0 else -1
            self._numbers[signature] = known
        return known

    def arguments(self, signature: int) -> list[Any]:
        return _list(self.lookups.raw_signatures[signature][3])

    def moved(self, signature: int, source: int) -> dict[str, Any]:
        """Bytes and direction of a copy whose ``source``-th argument is what is copied."""
        known = self._moved.get((signature, source))
        if known is None:
            known = self._moved[signature, source] = _moved(self.lookups.raw_signatures[signature], source)
        return known

    def below(self, row: int) -> list[tuple[int, int]]:
        """(traits, signature) of the events directly below a row, in the window or just after it."""
        if self._below is None:
            self._below = {}
            rows = self.rows
            for child in np.flatnonzero((self.traits & _ALWAYS) != 0).tolist():
                parent = int(rows.parent[child])
                if parent >= 0:
                    entry = (int(self.traits[child]), int(rows.signature[child]))
                    self._below.setdefault(parent, []).append(entry)
        return self._below.get(row, [])

    def later(self, row: int) -> list[tuple[int, int]]:
        """The same, read from the recording: children that begin after the window does end are not in it."""
        thread = self.threads[int(self.rows.thread[row])]
        index = int(self.rows.index[row])
        records = thread.scan.file.read(index + 1, min(index + 1 + _MAX_LOOK, thread.scan.file.count))
        found = []
        for record in records:
            if int(record["parent"]) != index or int(record["start"]) == 0:
                continue
            name, signature = int(record["name"]), int(record["sig"])
            name = name + thread.bases.name if 0 < name < len(thread.tables.names) else 0
            signature = signature + thread.bases.signature if 0 < signature < len(thread.tables.signatures) else 0
            found.append((int(self.lookups.traits[name]), signature))
        return found


def _classify(window: _Window, row: int) -> tuple[str, dict[str, Any]] | None:
    """The kind of one event and its detail, or None when it is what it seems."""
    rows, lookups = window.rows, window.lookups
    traits, signature = int(window.traits[row]), int(rows.signature[row])
    if rows.kind[row] == spool.RANGE:
        parent = int(rows.parent[row])
        if traits & ARTIFACT:
            return "compile", _artifact(window, row)
        if traits & FALLBACK and parent >= 0 and rows.kind[parent] == spool.OP:
            return "fallback", _fallback_bytes(window, row)
        return None
    if traits & ARTIFACT:
        return "compile", _artifact(window, row)
    if traits & (COPY_TO_HOST | COPY_TO_DEVICE):
        moved: dict[str, Any] = {"direction": "device_to_host" if traits & COPY_TO_HOST else "host_to_device"}
        size = window.number(signature)
        return "copy", {"bytes": size, **moved} if size >= 0 else moved
    if traits & READ_SCALAR:
        return "sync", {}
    if traits & DEVICE_COPY:
        if signature and not lookups.crosses[signature]:
            return None  # within one device: work of that device
        return "copy", window.moved(signature, 0)
    if traits & COPY:
        return None if _has_below(window, row, DEVICE_COPY) else ("copy", window.moved(signature, 1))
    if traits & TO_COPY:
        return _conversion(window, row, signature)
    return None


def _conversion(window: _Window, row: int, signature: int) -> tuple[str, dict[str, Any]] | None:
    """``aten::_to_copy`` where nothing below it was seen (the Python recorder): a copy between devices."""
    if window.has_child[row] or window.later(row):
        return None
    texts = window.lookups.raw_signatures[signature]
    target = NAMES_DEVICE.search(texts[3])
    devices = f"{texts[4].partition(' ')[0]} {target[1] if target else ''}"
    return "copy", _moved((*texts[:4], devices), 0)


def _has_below(window: _Window, row: int, trait: int) -> bool:
    children = window.below(row) or window.later(row)
    return any(traits & trait for traits, _ in children)


def _fallback_bytes(window: _Window, row: int) -> dict[str, Any]:
    children = window.below(row)
    if sum(bool(traits & (COPY_TO_HOST | COPY_TO_DEVICE)) for traits, _ in children) < 2:
        children = window.later(row)
    sums: dict[str, Any] = {}
    for traits, signature in children:
        size = window.number(signature)
        if size >= 0 and traits & (COPY_TO_HOST | COPY_TO_DEVICE):
            key = "bytes_to_host" if traits & COPY_TO_HOST else "bytes_to_device"
            sums[key] = sums.get(key, 0) + size
    return sums


def _artifact(window: _Window, row: int) -> dict[str, Any]:
    """The key of a compiled artifact, what it is compiled for, where it came from and what asked for it."""
    fields = zip(("artifact", "signature", "cache"), window.arguments(int(window.rows.signature[row])), strict=False)
    document = {"cache": "miss"} | {name: value for name, value in fields if isinstance(value, str)}
    parent = int(window.rows.parent[row])
    if parent >= 0 and window.rows.kind[parent] == spool.OP and not document.get("signature", "").startswith("graph"):
        document["trigger"] = "eager"
    return document


def _moved(texts: tuple[str, ...], source: int) -> dict[str, Any]:
    first, _, second = texts[4].partition(" ")
    second = second.partition(" ")[0]
    origin, target = (first, second) if source == 0 else (second, first)
    document: dict[str, Any] = {}
    shapes, dtypes = _list(texts[0]), _list(texts[2])
    if source < len(shapes) and source < len(dtypes):
        size, item = shapes[source], ITEM_BYTES.get(dtypes[source]) if isinstance(dtypes[source], str) else None
        if item is not None and isinstance(size, list) and all(type(n) is int for n in size):
            document["bytes"] = int(np.prod([max(n, 0) for n in size], dtype=object)) * item
    if origin and target:
        there = [("host" if device == "cpu" else "device") for device in (origin, target)]
        document["direction"] = f"{there[0]}_to_{there[1]}"
    return document


def _list(text: str) -> list[Any]:
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []
