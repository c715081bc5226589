"""What an operator was called with, as the texts of the schema's four columns.

The same texts as the native recorder writes: one JSON entry per operator argument, null
for what a column has nothing to say about, without spaces, lists and strings cut.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from typing import Any

from neuron_explorer.trace.recorders.twin_collectives import group_mark

__all__ = ["Number", "Signature", "argument_values", "describe", "key_of"]

MAX_LISTED_TENSORS = 8
MAX_LISTED_NUMBERS = 32
MAX_STRING_BYTES = 64
MAX_TEXT_BYTES = 4096
_TOO_LONG = '["too long"]'


# Numbers that torch's C++ uses for them: what the native recorder sees.
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc")
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


@dataclass(frozen=True)
class Number:
    """A Python number where the operator takes a tensor: a tensor without dimensions in C++."""

    dtype: str


@dataclass(frozen=True)
class Signature:
    """The texts of one signature."""

    shapes: str
    strides: str
    dtypes: str
    arguments: str
    device: str


def argument_values(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """One value per argument of the operator's schema, defaults filled in."""
    declared = _declared(func)
    if declared is None:
        return [*args, *kwargs.values()]
    values = list(args)
    for name, default, _ in declared[len(args) :]:
        values.append(kwargs.get(name, default))
    for i, (_, _, takes_tensor) in enumerate(declared):
        if takes_tensor and type(values[i]) in _NUMBERS:
            values[i] = Number(_NUMBERS[type(values[i])])
    return values


@functools.lru_cache(maxsize=8192)
def _declared(func: Any) -> tuple[tuple[str, Any, bool], ...] | None:
    """(name, default, takes a tensor) per argument; None for a higher-order operator."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return None
    return tuple((a.name, a.default_value, a.type.kind() == "TensorType") for a in schema.arguments)


_NUMBERS: dict[type, str] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def key_of(value: Any, floats: bool) -> Any:
    """A hashable description of ``value``: equal for calls with the same signature."""
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor_facts(value)
    if isinstance(value, list | tuple):
        return tuple(key_of(v, floats) for v in value)
    if isinstance(value, float):
        return ("float", value) if floats else "float"
    if isinstance(value, bool | int | str | type(None)):
        return (type(value), value)
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | Number):
        return value
    return (type(value), group_mark(value))


def describe(values: list[Any], floats: bool) -> Signature:
    """The texts for these argument values."""
    import torch

    shapes: list[str] = []
    strides: list[str] = []
    dtypes: list[str] = []
    arguments: list[str] = []
    devices: list[str] = []
    for value in values:
        tensors = _tensors_in(value)
        devices += _devices_of(value, tensors)
        if isinstance(value, Number):
            shape, stride, dtype = "[]", "[]", f'"{value.dtype}"'
        elif isinstance(value, torch.Tensor):
            shape, stride, dtype = _tensor_texts(value)
        elif tensors:
            shape, stride, dtype = _list_texts(value)
        else:
            shape = stride = dtype = "null"
        shapes.append(shape)
        strides.append(stride)
        dtypes.append(dtype)
        arguments.append("null" if tensors or isinstance(value, Number) else _value_text(value, floats))
    return Signature(_join(shapes), _join(strides), _join(dtypes), _join(arguments), " ".join(dict.fromkeys(devices)))


def _join(texts: list[str]) -> str:
    text = "[" + ",".join(texts) + "]"
    return text if len(text.encode()) <= MAX_TEXT_BYTES else _TOO_LONG


def _tensors_in(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return []


def _is_plain(tensor: Any) -> bool:
    # A subclass may answer `shape` in Python; its code must not run because we look.
    import torch

    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _tensor_facts(tensor: Any) -> Any:
    if not _is_plain(tensor):
        return ("subclass", type(tensor))
    if not _is_strided(tensor):
        return (_sizes(tensor), None, tensor.dtype, tensor.device)
    return (_sizes(tensor), _strides(tensor), tensor.dtype, tensor.device)


def _is_strided(tensor: Any) -> bool:
    import torch

    return tensor.layout is torch.strided and not tensor.is_nested


def _sizes(tensor: Any) -> tuple[int, ...] | None:
    if tensor.is_nested:
        return None
    sizes = tuple(tensor.shape)
    return sizes if all(type(s) is int for s in sizes) else None


def _strides(tensor: Any) -> tuple[int, ...] | None:
    strides = tuple(tensor.stride())
    return strides if all(type(s) is int for s in strides) else None


def _tensor_texts(tensor: Any) -> tuple[str, str, str]:
    if not _is_plain(tensor):
        return "null", "null", "null"
    sizes = _sizes(tensor)
    shape = '"symbolic"' if sizes is None else _ints(sizes)
    strides = _strides(tensor) if sizes is not None and _is_strided(tensor) else None
    return shape, "null" if strides is None else _ints(strides), f'"{_dtype_name(tensor.dtype)}"'


def _list_texts(values: Any) -> tuple[str, str, str]:
    import torch

    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for value in values[:MAX_LISTED_TENSORS]:
        texts = _tensor_texts(value) if isinstance(value, torch.Tensor) else ("null", "null", "null")
        for column, text in zip(columns, texts, strict=True):
            column.append(text)
    left = len(values) - MAX_LISTED_TENSORS
    if left > 0:
        for column in columns:
            column.append(f'"{left} more"')
        rest = [_sizes(v) for v in values[MAX_LISTED_TENSORS:] if isinstance(v, torch.Tensor) and _is_plain(v)]
        if None not in rest:
            elements = sum(math.prod(sizes) for sizes in rest if sizes is not None)
            columns[0][-1] = f'"{left} more, {elements} elements"'
    shapes, strides, dtypes = ("[" + ",".join(column) + "]" for column in columns)
    return shapes, strides, dtypes


def _devices_of(value: Any, tensors: list[Any]) -> list[str]:
    if isinstance(value, Number):
        return ["cpu"]  # where C++ makes a tensor of it
    return [str(tensor.device) for tensor in tensors[:MAX_LISTED_TENSORS] if _is_plain(tensor)]


def _value_text(value: Any, floats: bool) -> str:
    if isinstance(value, list | tuple):
        texts = [_scalar_text(v, floats) for v in value[:MAX_LISTED_NUMBERS]]
        if len(value) > MAX_LISTED_NUMBERS:
            texts.append(f'"{len(value) - MAX_LISTED_NUMBERS} more"')
        return "[" + ",".join(texts) + "]"
    return _scalar_text(value, floats)


def _scalar_text(value: Any, floats: bool) -> str:
    import torch

    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not floats:
            return '"varies"'
        return repr(value) if math.isfinite(value) else json.dumps(str(value))
    if isinstance(value, str):
        return _string_text(value)
    if isinstance(value, torch.dtype):
        return f'"{_dtype_name(value)}"'
    if isinstance(value, torch.device):
        return json.dumps(str(value))
    for names in (_LAYOUTS, _MEMORY_FORMATS):
        for number, name in enumerate(names):
            if value is getattr(torch, name, None):
                return str(number)
    return json.dumps(group_mark(value) or type(value).__name__)


def _string_text(value: str) -> str:
    encoded = value.encode("utf-8", "replace")
    if len(encoded) > MAX_STRING_BYTES:
        value = encoded[:MAX_STRING_BYTES].decode("utf-8", "ignore") + "…"
    else:
        value = encoded.decode("utf-8")
    return json.dumps(value, ensure_ascii=False)


def _ints(values: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
