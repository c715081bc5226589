"""Shapes, strides, dtypes and arguments of operators, as the schema writes them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

from .texts import Texts

__all__ = ["Signatures"]

_DTYPES: Final = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "long": "int64",
    "long int": "int64", "long long": "int64", "int": "int32", "short": "int16", "short int": "int16",
    "signed char": "int8", "char": "int8", "unsigned char": "uint8", "bool": "bool",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128", "c10::complex<c10::Half>": "complex32",
    "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "unsigned short": "uint16", "unsigned int": "uint32", "unsigned long": "uint64",
    "c10::qint8": "qint8", "c10::quint8": "quint8", "c10::qint32": "qint32",
}  # fmt: skip
_NO_TENSOR: Final = frozenset({
    "", "Scalar", "ScalarList", "Int", "Bool", "Double", "String", "None", "GenericList", "Device", "Generator",
    "Tuple", "SymInt", "GenericDict", "Stream", "Object",
})  # fmt: skip
_MOST: Final = 4096
_CACHED: Final = 20_000


class Signatures:
    """Texts of the four columns for arguments of an operator, given by the numbers of their texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._lists: dict[int, list[Any]] = {}

    def shapes(self, dims: int, types: int) -> str | None:
        """Sizes of tensors; null for what is no tensor."""
        return self._sizes(dims, types)

    def strides(self, strides: int, types: int) -> str | None:
        """Strides in elements."""
        return self._sizes(strides, types)

    def _sizes(self, number: int, types: int) -> str | None:
        sizes = self._list(number)
        if not sizes:
            return None
        kinds = self._list(types)
        return _dumps([
            None if i < len(kinds) and kinds[i] in _NO_TENSOR and not size else size for i, size in enumerate(sizes)
        ])  # fmt: skip

    def dtypes(self, types: int) -> str | None:
        """dtypes of tensors; ``TensorList`` for a list of them."""
        kinds = self._list(types)
        if not kinds:
            return None
        return _dumps([None if k in _NO_TENSOR else _DTYPES.get(k, k) if isinstance(k, str) else None for k in kinds])

    def arguments(self, concrete: int) -> str | None:
        """Values of what is no tensor."""
        values = self._list(concrete)
        return _dumps([_value(v) for v in values]) if any(v not in ("", None) for v in values) else None

    def _list(self, number: int) -> list[Any]:
        known = self._lists.get(number)
        if known is None:
            value = self._texts.value(number) if number else None
            known = value[:_MOST] if isinstance(value, list) else []
            if len(self._lists) >= _CACHED:
                self._lists.clear()
            self._lists[number] = known
        return known


def _value(text: Any) -> Any:
    return _of_text(text) if isinstance(text, str) else text


@lru_cache(4096)
def _of_text(text: str) -> Any:
    if text == "":
        return None
    if text in ("True", "False"):
        return text == "True"
    try:
        value = json.loads(text.replace("True", "true").replace("False", "false")) if len(text) < 2000 else text
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, float, list)) and "Infinity" not in text and "NaN" not in text else text


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
