"""Columns of any type as integers, numbers or texts: what cannot be one is counted, never an error.

A newer schema may write an integer as text or a text as an integer; ids of 64 bits stay exact.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LONGEST_TEXT", "MISSING", "floats", "integers", "parts", "texts"]

MISSING: Final = int(np.iinfo(np.int64).min)
"""The integer of a row that has none."""
LONGEST_TEXT: Final = 8_192
_LARGEST: Final = float(1 << 62)
_INTEGER: Final = r"^\s*[+-]?[0-9]{1,18}\s*$"


def integers(array: pa.Array) -> tuple[np.ndarray, int]:
    """int64 values, ``MISSING`` where there is none, and the number of values that are no integers.

    uint64 beyond int64 wraps, so that equal ids stay equal. Times of a timestamp type are in ns.
    """
    array = _plain(array)
    kind = array.type
    if pa.types.is_integer(kind):
        return _filled(array.cast(pa.int64(), safe=False)), 0
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        unit = pa.timestamp("ns") if pa.types.is_timestamp(kind) else pa.duration("ns")
        return _filled(array.cast(unit, safe=False).cast(pa.int64(), safe=False)), 0
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _whole(array.cast(pa.float64(), safe=False))
    if _is_text(kind):
        whole = pc.match_substring_regex(array, _INTEGER)
        numbers = pc.if_else(whole, pc.utf8_trim_whitespace(array), None)
        found = _filled(pc.replace_substring(numbers, "+", "").cast(pa.int64()))
        left = pc.and_(pc.invert(whole), pc.not_equal(pc.utf8_trim_whitespace(array), ""))
        at = np.flatnonzero(_true(left))
        wrong = 0
        for position in at.tolist():
            value = _number(array[position].as_py())
            if value is None:
                wrong += 1
            else:
                found[position] = value
        return found, wrong
    return np.full(len(array), MISSING, np.int64), len(array) - array.null_count


def floats(array: pa.Array) -> tuple[np.ndarray, int]:
    """float64 values, NaN where there is none, and the number of values that are no numbers."""
    array = _plain(array)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        found = np.array(array.cast(pa.float64(), safe=False).fill_null(math.nan).to_numpy(zero_copy_only=False))
        wrong = int(np.isinf(found).sum())
        found[np.isinf(found)] = math.nan
        return found, wrong
    if _is_text(kind):
        found, wrong = np.full(len(array), math.nan), 0
        for position, text in enumerate(array.to_pylist()):
            if text is None or not text.strip():
                continue
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if math.isfinite(value):
                found[position] = value
            else:
                wrong += 1
        return found, wrong
    return np.full(len(array), math.nan), len(array) - array.null_count


def texts(array: pa.Array) -> tuple[pa.Array, int]:
    """Strings, null where there is nothing; numbers and lists as their JSON, long ones cut."""
    array = _plain(array)
    kind = array.type
    if _is_text(kind):
        found = array.cast(pa.string())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = pa.array([v if v is None else v.decode("utf-8", "replace") for v in array.to_pylist()], pa.string())
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        found = array.cast(pa.string())
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = [None if v is None else json.dumps(v, default=str) for v in array.to_pylist()]
        found = pa.array(made, pa.string())
    else:
        return pa.nulls(len(array), pa.string()), len(array) - array.null_count
    found = pc.utf8_slice_codeunits(found, 0, LONGEST_TEXT)
    return pc.if_else(pc.equal(found, ""), None, found), 0


def parts(value: str | None, most: int = 100_000) -> list[Any]:
    """A list that stands in a text: JSON, else its parts between commas; brackets and quotes are left out."""
    if not value:
        return []
    text = value.strip()
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return found[:most]
    each = (part.strip(" \t'\"[]") for part in re.split(r"[,;]", text.strip("[](){}"), maxsplit=most))
    return [part for part in each if part][:most]


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array


def _filled(array: pa.Array) -> np.ndarray:
    return np.array(array.fill_null(MISSING).to_numpy(zero_copy_only=False), np.int64)


def _whole(array: pa.Array) -> tuple[np.ndarray, int]:
    found = np.array(array.fill_null(math.nan).to_numpy(zero_copy_only=False), np.float64)
    null = np.asarray(array.is_null())
    usable = np.isfinite(found) & (np.abs(found) < _LARGEST)
    result = np.full(len(found), MISSING, np.int64)
    result[usable] = np.rint(found[usable]).astype(np.int64)
    return result, int((~usable & ~null).sum())


def _number(text: str) -> int | None:
    try:
        value = float(text)
        if math.isfinite(value) and abs(value) < _LARGEST:
            return int(text) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else round(value)
        whole = int(text) if re.fullmatch(r"\s*\d{19,20}\s*", text) else -1
    except (ValueError, OverflowError):
        return None
    return (whole if whole < 1 << 63 else whole - (1 << 64)) if 0 <= whole < 1 << 64 else None


def _true(mask: pa.Array) -> np.ndarray:
    return np.asarray(mask.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
