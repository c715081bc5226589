"""The reader of JSON text: native where it can be compiled, else its twin in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["Nest", "Reader", "give_back", "native", "open_nest", "open_reader"]

MAX_TEXT_BYTES = 512 << 20
"""Of all distinct texts together; texts beyond are left out and counted."""
MAX_FRAMES = 1_000_000


class Reader(Protocol):
    """Text in, records out."""

    def feed(self, data: bytes, last: bool, least: int = 0) -> bytearray:
        """The records (``records.RECORD``) of the events that have ended; ``last``: nothing follows.

        Fewer than ``least`` are kept until more have come.
        """

    def texts(self) -> list[bytes]:
        """The texts that are new since the last call; the first has number 1."""

    def header(self) -> list[tuple[bytes, bytes]]:
        """Keys of the document beside the events, and the JSON of their values."""

    def faults(self) -> list[tuple[int, int]]:
        """Number and byte offset of the first, for each of ``records.FAULTS``."""

    def state(self) -> tuple[bool, int]:
        """Whether the document was closed, and how many texts were left out."""


class Nest(Protocol):
    """Which event encloses which; see ``nest.py``."""

    def add(self, *arrays: Any) -> tuple[bytes, bytes]: ...

    def finish(self) -> tuple[bytes, bytes]: ...

    def nodes(self) -> tuple[bytes, bytes]: ...

    def counts(self) -> tuple[int, int]: ...


def native() -> tuple[Any, str]:
    """The native module, and why there is none ("" when there is)."""
    from ...._native import NativeUnavailable, load_chrome

    try:
        return load_chrome(), ""
    except NativeUnavailable as error:
        return None, str(error)


def give_back() -> None:
    """Hand memory that is free, but in pieces, back to the system; otherwise it grows with the length of a trace."""
    module, _ = native()
    if module is not None:
        module.trim()


def open_reader(keys: Mapping[str, tuple[bool, int]]) -> tuple[Reader, str]:
    """A reader, and why it is not the native one ("" when it is)."""
    module, reason = native()
    if module is not None:
        return module.Reader(dict(keys), MAX_TEXT_BYTES), ""
    from .twin import TwinReader

    return TwinReader(dict(keys), MAX_TEXT_BYTES), reason


def open_nest() -> Nest:
    """What finds the enclosing events."""
    module, _ = native()
    if module is not None:
        nest: Nest = module.Nest(MAX_FRAMES)
        return nest
    from .nest import TwinNest

    return TwinNest(MAX_FRAMES)
