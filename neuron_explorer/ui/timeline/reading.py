"""Columns of a trace in batches, decoded by two threads and handed out in the order of the file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

BATCH: Final = 32_768
"""Rows of a batch at most: few enough that its arrays stay in a processor's cache, and that the
memory of one is used for the next instead of being given back to the system."""
WORKERS: Final = 2
AHEAD: Final = WORKERS + 1
"""Row groups that are in memory at once."""
WHOLE: Final = 1 << 19
"""Rows of the largest row group that is decoded at once; larger ones come batch by batch."""
T = TypeVar("T")
R = TypeVar("R")


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """``work`` of each item, done by two threads and handed out in the order of the items; few at a time."""
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="timeline") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def batches(path: Path, columns: Sequence[str], work: Callable[[Any, int], R]) -> Iterator[tuple[R, int]]:
    """``work(batch, row)`` of each record batch and the rows read so far.

    ``work`` runs in a thread; ``row`` is the file row of the batch's first. Columns that the
    file lacks are left out. At most a few batches are in memory.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        footer = file.metadata
        wanted = [c for c in columns if c in file.schema_arrow.names]
        sizes = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]

        def group(number: int, row: int) -> list[tuple[R, int]]:
            # A file of its own: two threads may not read through one.
            with pq.ParquetFile(path, metadata=footer) as mine:
                return list(_of_group(mine, number, row, wanted, work))

        with ThreadPoolExecutor(WORKERS, thread_name_prefix="reading") as pool:
            waiting: deque[Future[list[tuple[R, int]]]] = deque()
            row = 0
            try:
                for number, size in enumerate(sizes):
                    if size > WHOLE:
                        while waiting:
                            yield from waiting.popleft().result()
                        yield from _of_group(file, number, row, wanted, work)
                    else:
                        waiting.append(pool.submit(group, number, row))
                        if len(waiting) >= AHEAD:
                            yield from waiting.popleft().result()
                    row += size
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


def _of_group(
    file: Any, number: int, row: int, columns: Sequence[str], work: Callable[[Any, int], R]
) -> Iterator[tuple[R, int]]:
    for batch in file.iter_batches(BATCH, row_groups=[number], columns=columns, use_threads=False):
        yield work(batch, row), row + batch.num_rows
        row += batch.num_rows


def codes_of(column: Any) -> tuple[np.ndarray, list[str]]:
    """Codes and texts of a text column; null is the text ""."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = [("" if text is None else text) for text in column.dictionary.to_pylist()]
    indices = column.indices
    if indices.null_count:
        indices = indices.fill_null(len(texts))
    return indices.to_numpy(zero_copy_only=False), [*texts, ""]


def text_codes(batch: Any, name: str) -> tuple[np.ndarray, list[str]]:
    """As ``codes_of``; a column that is not there holds only nulls."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int32), [""]
    return codes_of(batch.column(name))


def integers(batch: Any, name: str, missing: int) -> np.ndarray:
    """An integer column as it is stored; ``missing`` where it has no value or is not there."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, missing, np.int64)
    column = batch.column(name)
    if column.null_count:
        column = column.fill_null(missing)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different integers, ascending, and for each value its place among them."""
    if len(values) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low > 8 * len(values):
        found, inverse = np.unique(values, return_inverse=True)
        return found.astype(np.int64), inverse
    # A table is many times faster than sorting.
    there = np.zeros(high - low + 1, bool)
    offsets = values.astype(np.int64) - low
    there[offsets] = True
    number = np.cumsum(there) - 1
    return np.flatnonzero(there) + low, number[offsets]
