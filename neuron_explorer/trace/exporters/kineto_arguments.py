"""Shapes, dtypes, strides and values of an operator's arguments, as torch.profiler writes them.

torch.profiler has a list with one entry for each argument, in which what is no tensor is an empty list or
an empty text. Where that loses something (the dtypes in a list of tensors, a text that reads like a
number), the trace's own text is written too, under ``shapes``, ``strides``, ``dtypes`` or ``arguments``.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

__all__ = ["Signatures", "quoted"]

_DTYPES: Final = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int64": "long int", "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char",
    "bool": "bool", "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long", "float8_e4m3fn": "c10::Float8_e4m3fn", "float8_e5m2": "c10::Float8_e5m2",
    "float8_e4m3fnuz": "c10::Float8_e4m3fnuz", "float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
    "qint8": "c10::qint8", "quint8": "c10::quint8", "qint32": "c10::qint32",
}  # fmt: skip
"""Names of C++ types (c10/util/typeid.h), which torch.profiler writes."""
_LIST: Final = "TensorList"
_CACHED: Final = 50_000
_LONGEST: Final = 200_000


def quoted(text: str | None) -> str:
    """A text as JSON in ASCII: control characters and surrogates escaped; null for None."""
    return json.dumps(text)


class Signatures:
    """Members of ``args`` for the four text columns, each combination made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, ...], str] = {}

    def members(self, shapes: str | None, strides: str | None, dtypes: str | None, arguments: str | None) -> str:
        """JSON members, each with a comma before it; empty when nothing is known."""
        key = shapes, strides, dtypes, arguments
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            known = self._known[key] = _members(*key)
        return known


def _members(shapes: str | None, strides: str | None, dtypes: str | None, arguments: str | None) -> str:
    if shapes is None and dtypes is None and arguments is None:
        return ""
    sizes, steps, types, values = (_list(text) for text in (shapes, strides, dtypes, arguments))
    count = max(len(sizes), len(types), len(values))
    dims = [_or_empty(sizes, i) for i in range(count)]
    kinds = [_type(_at(types, i), _at(sizes, i), _at(values, i)) for i in range(count)]
    concrete = [_concrete(_at(values, i)) for i in range(count)]
    parts = [f',"Concrete Inputs":{_dumps(concrete)}', f',"Input type":{_dumps(kinds)}']
    if steps:
        parts.append(f',"Input Strides":{_dumps([_or_empty(steps, i) for i in range(count)])}')
    parts.append(f',"Input Dims":{_dumps(dims)}')
    for name, text, given, lost in (
        ("shapes", shapes, sizes, any(s is None and k in _DTYPES.values() for s, k in zip(sizes, kinds, strict=False))),
        ("strides", strides, steps, any(s is None and k in _DTYPES.values() for s, k in zip(steps, kinds, strict=False))
         or len(steps) != count),
        ("dtypes", dtypes, types, any(isinstance(t, list) or (t is not None and t not in _DTYPES) for t in types)),
        ("arguments", arguments, values, all(v is None for v in values) or any(not _comes_back(v) for v in values)),
    ):  # fmt: skip
        if text is not None and (lost or not given or len(given) != count) and len(text) < _LONGEST:
            parts.append(f',"{name}":{_dumps(given) if given or text == "[]" else quoted(text)}')
    return "".join(parts)


def _list(text: str | None) -> list[Any]:
    if text is None or len(text) > _LONGEST:
        return []
    try:
        value = json.loads(text, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _finite(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else digits


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _or_empty(values: list[Any], index: int) -> list[Any]:
    value = _at(values, index)
    return value if isinstance(value, list) else []


def _type(dtype: Any, size: Any, value: Any) -> str:
    if isinstance(dtype, str):
        return _DTYPES.get(dtype, dtype)
    if isinstance(dtype, list) or (isinstance(size, list) and size and isinstance(size[0], list)):
        return _LIST
    if isinstance(value, (bool, int, float)):
        return "Scalar"
    return "ScalarList" if isinstance(value, list) else ""


def _concrete(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "True" if value else "False"
    return value if isinstance(value, str) else json.dumps(value)


def _comes_back(value: Any) -> bool:
    """Whether a reader of ``_concrete(value)`` sees what it was."""
    if isinstance(value, str):
        if value in ("", "True", "False"):
            return False
        try:
            json.loads(value.replace("True", "true").replace("False", "false"))
        except (ValueError, RecursionError):
            return True
        return False
    if isinstance(value, list):
        return all(isinstance(v, (int, float)) for v in value)
    return value is None or isinstance(value, (bool, int, float))


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
