"""The work of one operator call: arithmetic, and the least it can move to and from memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from neuron_explorer.analysis.signature import ITEM_BYTES, Tensor
from neuron_explorer.neuron.hardware import NARROWED

Moved = tuple[tuple[str, int], ...]
"""(dtype, elements) of each tensor read or written."""

MATRIX: Final = "matrix"
"""Arithmetic that a matrix unit does; anything else is elementwise."""

ELEMENTWISE: Final = "elementwise"


@dataclass(frozen=True)
class Cost:
    """Work of one call.

    ``flops``: floating point operations; integer work counts by its bytes only.
    ``unit``: ``matrix`` or ``elementwise``, what kind of hardware does it. ``dtype``: of the
    arithmetic. ``read`` and ``written``: every input once and every result once.
    """

    flops: int
    unit: str
    dtype: str
    read: Moved
    written: Moved

    def bytes_read(self, narrowed: bool = False) -> int:
        """Bytes read. ``narrowed``: 64-bit types take the 32 bits that a Neuron device gives them."""
        return _bytes(self.read, narrowed)

    def bytes_written(self, narrowed: bool = False) -> int:
        """Bytes written; ``narrowed`` as in ``bytes_read``."""
        return _bytes(self.written, narrowed)


def _bytes(moved: Moved, narrowed: bool) -> int:
    return sum(item_bytes(dtype, narrowed) * elements for dtype, elements in moved)


def item_bytes(dtype: str, narrowed: bool = False) -> int:
    """Bytes of an element; 4 for a dtype that is not known."""
    return ITEM_BYTES.get(NARROWED.get(dtype, dtype) if narrowed else dtype, 4)


def moved(*tensors: Tensor | None) -> Moved:
    """The tensors as (dtype, elements); None is left out."""
    return tuple((t.dtype, t.elements) for t in tensors if t is not None)


NOTHING: Final = Cost(0, ELEMENTWISE, "", (), ())
"""Metadata only: no arithmetic, nothing moved."""

_ORDER: Final = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def promoted(tensors: Iterable[Tensor]) -> str:
    """The dtype that these promote to. Tensors without dimensions (numbers) count by their kind only."""
    every = list(tensors)
    full = [t.dtype for t in every if t.shape] or [t.dtype for t in every]
    if not full:
        return "float32"
    best = max(full, key=_rank)
    # float16 and bfloat16 meet in float32.
    if {"float16", "bfloat16"} <= set(full) and _rank(best) < _rank("float32"):
        best = "float32"
    numbers = [t.dtype for t in every if not t.shape]
    if numbers and not best.startswith(("float", "bfloat", "complex")):
        kinds = max(numbers, key=_rank)
        if kinds.startswith(("float", "bfloat", "complex")):
            return "float32"
    return best


def _rank(dtype: str) -> int:
    return _ORDER.index(dtype) if dtype in _ORDER else 0


def broadcast(tensors: Iterable[Tensor]) -> tuple[int, ...] | None:
    """The shape that these broadcast to, or None."""
    shape: list[int] = []
    for tensor in tensors:
        sizes = tensor.shape
        if len(sizes) > len(shape):
            shape = [1] * (len(sizes) - len(shape)) + shape
        for position in range(1, len(sizes) + 1):
            mine, theirs = sizes[-position], shape[-position]
            if theirs == 1:
                shape[-position] = mine
            elif mine not in (1, theirs):
                return None
    return tuple(shape)
