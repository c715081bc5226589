"""What an operator was called with, read from the texts of a trace.

The texts come from elsewhere: sizes are checked and bounded before anything is computed
with them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

MOST_ELEMENTS: Final = 1 << 46
"""Elements of one tensor; more than any machine holds is no tensor."""

_LONGEST: Final = 1 << 16
_MORE: Final = re.compile(r"([0-9]{1,9}) more(?:, ([0-9]{1,14}) elements)?")

ITEM_BYTES: Final[dict[str, int]] = {
    "bool": 1, "uint8": 1, "int8": 1, "qint8": 1, "quint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8,
    "complex128": 16, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """One tensor argument."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a tensor without dimensions."""
        return prod(self.shape)

    @property
    def floating(self) -> bool:
        """Real or complex numbers, not integers or truth values."""
        return self.dtype.startswith(("float", "bfloat", "complex"))


@dataclass(frozen=True)
class TensorList:
    """A list of tensors, of which the trace may keep the first few.

    ``cut``: how many it left out; ``cut_elements``: elements of those, -1 where it does not say.
    """

    tensors: tuple[Tensor, ...]
    cut: int = 0
    cut_elements: int = -1

    @property
    def elements(self) -> int:
        """Elements of all tensors, as far as they are known."""
        return sum(t.elements for t in self.tensors) + max(self.cut_elements, 0)

    @property
    def moved(self) -> tuple[tuple[str, int], ...]:
        """(dtype, elements) of each tensor; those that were left out count with the first one's dtype."""
        known = tuple((t.dtype, t.elements) for t in self.tensors)
        return (*known, (self.tensors[0].dtype, self.cut_elements)) if self.cut_elements > 0 and known else known


@dataclass(frozen=True)
class Signature:
    """The arguments in the order of the operator's schema: tensors, lists of them, other values."""

    arguments: tuple[Any, ...]

    def tensor(self, position: int) -> Tensor | None:
        """The tensor at a position, or None."""
        value = self.arguments[position] if position < len(self.arguments) else None
        return value if isinstance(value, Tensor) else None

    def value(self, position: int, default: Any = None) -> Any:
        """The plain value at a position; ``default`` where there is none."""
        value = self.arguments[position] if position < len(self.arguments) else None
        return default if value is None or isinstance(value, (Tensor, TensorList)) else value

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor, those in lists included."""
        found: list[Tensor] = []
        for argument in self.arguments:
            if isinstance(argument, Tensor):
                found.append(argument)
            elif isinstance(argument, TensorList):
                found += argument.tensors
        return tuple(found)

    @property
    def cut(self) -> int:
        """Tensors that the trace left out of long lists without their number of elements."""
        return sum(a.cut for a in self.arguments if isinstance(a, TensorList) and a.cut_elements < 0)


@lru_cache(maxsize=65_536)
def parse(shapes: str | None, dtypes: str | None, arguments: str | None) -> Signature | None:
    """The signature, or None where the texts are missing, cut or make no sense."""
    shape_list, dtype_list = _list(shapes), _list(dtypes)
    if shape_list is None or dtype_list is None or len(shape_list) != len(dtype_list):
        return None
    value_list = _list(arguments) or []
    found: list[Any] = []
    for position, (shape, dtype) in enumerate(zip(shape_list, dtype_list, strict=True)):
        if isinstance(dtype, str):
            tensor = _tensor(shape, dtype)
            if tensor is None:
                return None
            found.append(tensor)
        elif isinstance(dtype, list):
            listed = _tensor_list(shape, dtype)
            if listed is None:
                return None
            found.append(listed)
        else:
            found.append(value_list[position] if position < len(value_list) else None)
    return Signature(tuple(found))


def _list(text: str | None) -> list[Any] | None:
    if not text or len(text) > _LONGEST:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and value != ["too long"] else None


def _tensor(shape: Any, dtype: str) -> Tensor | None:
    if not isinstance(shape, list) or len(shape) > 64:
        return None
    sizes = tuple(shape)
    if not all(type(size) is int and 0 <= size <= MOST_ELEMENTS for size in sizes) or prod(sizes) > MOST_ELEMENTS:
        return None
    return Tensor(sizes, dtype[:40])


def _tensor_list(shapes: Any, dtypes: list[Any]) -> TensorList | None:
    """Lists end with ``"42 more"`` or ``"42 more, 1234 elements"`` where tensors were left out; null is no tensor."""
    if not isinstance(shapes, list):
        return None
    found: list[Tensor] = []
    cut, left = 0, -1
    for position, shape in enumerate(shapes):
        if isinstance(shape, str):
            said = _MORE.fullmatch(shape)
            cut += int(said[1]) if said else 1
            left = int(said[2]) if said and said[2] else -1
            continue
        dtype = dtypes[position] if position < len(dtypes) else None
        if shape is None or not isinstance(dtype, str):
            continue
        tensor = _tensor(shape, dtype)
        if tensor is None:
            return None
        found.append(tensor)
    return TensorList(tuple(found), cut, left)
