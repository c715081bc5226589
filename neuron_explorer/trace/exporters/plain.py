"""Tables with their dictionaries resolved: what programs that know no dictionaries read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ..arrays import values_of
from ..top_level import codes_of
from ..write import dictionary

__all__ = ["integers_or_null", "one_chunk", "plain_text"]


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    array = column.unify_dictionaries().combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def plain_text(column: pa.ChunkedArray, of: Callable[[str], str] | None = None) -> pa.Array:
    """A text column as plain strings, each distinct text as ``of`` makes it."""
    array = one_chunk(column)
    if of is not None:
        array = dictionary(codes_of(array), ["" if v is None else of(v) for v in array.dictionary.to_pylist()])
    return array.dictionary_decode()


def integers_or_null(column: pa.ChunkedArray) -> pa.Array:
    """An integer column with null for -1, which stands for "none"."""
    values = values_of(column)
    valid = pa.py_buffer(np.packbits(values != -1, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(values), [valid, pa.py_buffer(np.ascontiguousarray(values))])
