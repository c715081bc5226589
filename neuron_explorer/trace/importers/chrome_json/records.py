"""An entry of ``traceEvents`` as a record of fixed size, and what its arguments are called.

The native reader (``_native/src/chrome/event.h``) writes the same bytes as :data:`RECORD`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

__all__ = [
    "BAD_DURATION",
    "BAD_START",
    "DEEP",
    "EMPTY",
    "FAULTS",
    "INTS",
    "KINETO_KEYS",
    "LONG",
    "MISSING",
    "NO_ARGUMENTS",
    "NO_DURATION",
    "NO_KEYS",
    "NO_START",
    "RECORD",
    "TEXTS",
    "TEXT_TIME",
    "Picked",
]  # fmt: skip

MISSING: Final = -(1 << 63)
"""The value of an integer argument that an event does not have."""

INTS: Final = (
    "external", "correlation", "sequence", "forward", "index", "bytes", "first", "second", "device", "stream",
)  # fmt: skip
"""Integer arguments, by slot. ``first``, ``second`` and ``forward`` mean other things for other events."""
TEXTS: Final = ("dims", "types", "strides", "concrete", "stack", "hierarchy")
"""Arguments that are text (numbers into the table of texts, 0: none), by slot."""

RECORD: Final = np.dtype(
    [
        ("start", "<i8"), ("duration", "<i8"),  # ns
        ("offset", "<i8"),  # of the event in the text, bytes
        *((name, "<i8") for name in INTS),
        ("name", "<i4"), ("category", "<i4"), ("pid", "<i4"), ("tid", "<i4"), ("id", "<i4"),
        *((name, "<i4") for name in TEXTS),
        ("rest", "<i4"),  # the other arguments: members of a JSON object, without the braces
        ("flags", "<u2"), ("phase", "u1"),
        ("kind", "u1"), ("order", "u1"), ("unused", "V3"),
    ]
)  # fmt: skip
assert RECORD.itemsize == 160


class Picked:
    """Some records in an order, field by field: whole records, which are large, are not copied."""

    def __init__(self, parts: Sequence[np.ndarray | Picked], rows: np.ndarray) -> None:
        """``rows``: positions in the parts put together."""
        self._parts, self._rows = parts, rows
        self._known: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> np.ndarray:
        known = self._known.get(name)
        if known is None:
            parts = [part[name] for part in self._parts]
            known = (parts[0] if len(parts) == 1 else np.concatenate(parts))[self._rows]
            self._known[name] = known
        return known

    def __setitem__(self, name: str, values: np.ndarray) -> None:
        self._known[name] = values


NO_START, BAD_START, NO_DURATION, BAD_DURATION, TEXT_TIME, DEEP, LONG, NO_ARGUMENTS, EMPTY = (1 << i for i in range(9))

FAULTS: Final[tuple[tuple[str, str], ...]] = (
    ("events with damaged JSON", "their text is no JSON"),
    ("entries that are no events", "they are no objects"),
    ("events longer than 16 MiB", "too long to be read"),
    ("events cut at the end of the file", "the file ends inside them (the program was killed, or still writes)"),
    ("pieces of text after the trace's end", "another writer's, or an earlier, longer file"),
    ("places where the document is damaged", "its text is no JSON; reading went on at the next event"),
    ("stretches of 256 MiB without an event", "the rest of the file is not read"),
    ("events without a comma before them", "read all the same"),
)
"""What a reader counts, in the order of its counters, and why it happens."""

NO_KEYS: Final[Mapping[str, tuple[bool, int]]] = {}

KINETO_KEYS: Final[Mapping[str, tuple[bool, int]]] = {
    **{key: (False, INTS.index(slot)) for key, slot in {
        "External id": "external", "external id": "external", "correlation": "correlation",
        "Sequence number": "sequence", "Fwd thread id": "forward", "Ev Idx": "index", "Profiler Event Index": "index",
        "Bytes": "bytes", "bytes": "bytes", "Python id": "first", "Addr": "first", "Python parent id": "second",
        "Total Allocated": "second", "external ts": "second", "Total Reserved": "forward",
        "Device Id": "device", "device": "device", "stream": "stream",
    }.items()},
    **{key: (True, TEXTS.index(slot)) for key, slot in {
        "Input Dims": "dims", "Input dims": "dims", "Input type": "types", "Input Strides": "strides",
        "Concrete Inputs": "concrete", "Call stack": "stack", "Module Hierarchy": "hierarchy",
    }.items()},
}  # fmt: skip
"""Arguments of torch.profiler with a place of their own: name → (is text, slot)."""
