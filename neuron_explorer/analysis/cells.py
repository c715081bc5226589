"""The sums from which the tables are rolled up: one pass over the events of a selection.

A cell holds what all events with the same texts and flags add up to. A trace of millions of events
has some hundreds or thousands of cells, so that every table after the first costs next to nothing.
Medians do not add up: each table asks for its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.kept import kept
from neuron_explorer.analysis.marks import Marks, data_waits, kinds_of
from neuron_explorer.trace.query import UnreadableDataError

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_TEXTS: Final = (
    "kind", "name", "file", "function", "attribution", "module", "phase", "device", "shapes", "dtypes",
)  # fmt: skip
_LARGEST: Final = float(1 << 62)
_MOST_BUCKETS: Final = 100_000


@dataclass(frozen=True)
class Cells:
    """An entry a cell. ``texts``: key → codes (-1: none) and the texts they stand for; ``numbers``: the other keys.

    ``events``; ``self_ns`` and ``duration_ns`` (unknown ones count as 0); ``without_end``: events whose end
    was not seen; ``waiting``: the events began inside a wait for data (False where it was not asked).
    """

    texts: dict[str, tuple[np.ndarray, list[str]]]
    numbers: dict[str, np.ndarray]
    events: np.ndarray
    self_ns: np.ndarray
    duration_ns: np.ndarray
    without_end: np.ndarray
    waiting: np.ndarray

    def __len__(self) -> int:
        return len(self.events)

    def codes(self, key: str) -> np.ndarray:
        """Codes of a text, -1 where there is none."""
        return self.texts[key][0]

    def text(self, key: str, cell: int) -> str | None:
        """The text of one cell."""
        codes, texts = self.texts[key]
        code = int(codes[cell])
        return None if code < 0 else texts[code]

    def where(self, key: str, chosen: Sequence[str]) -> np.ndarray:
        """Cells whose text is one of ``chosen``."""
        codes, texts = self.texts[key]
        return np.array([*(text in chosen for text in texts), False])[codes]


def cells(trace: Trace, where: str, keys: Sequence[str], waits: Marks | None = None) -> Cells:
    """The cells of the events that ``where`` (SQL over ``events``) picks, by these columns.

    ``waits``: which waits for data an event may have begun in; of two that overlap the later counts.
    Raises ``UnreadableDataError`` where sums overflow.
    """
    spans = _spans(waits) if waits is not None and len(waits) else None
    token = None if spans is None else hash(spans[0].tobytes() + spans[1].tobytes())
    return kept(trace, ("cells", where, tuple(keys), token), lambda: _read(trace, where, tuple(keys), spans))


def _read(trace: Trace, where: str, keys: tuple[str, ...], spans: tuple[np.ndarray, np.ndarray] | None) -> Cells:
    source, waiting = "events", "FALSE"
    params: tuple[list[int], ...] = ()
    if spans is not None:
        shift, params = _buckets(*spans)
        source += (
            " LEFT JOIN (SELECT unnest(CAST(? AS BIGINT[])) AS bucket, unnest(CAST(? AS BIGINT[])) AS began, "
            "unnest(CAST(? AS BIGINT[])) AS ended) AS waits "
            f'ON "start" >> {shift} = bucket AND "start" >= began AND "start" < ended'
        )
        waiting = "began IS NOT NULL"
    table = trace.sql_arrow(
        f"SELECT {', '.join(keys)}, {waiting} AS waiting, count(*) AS events, "
        'CAST(sum(greatest("self", 0)) AS BIGINT) AS self_ns, '
        "CAST(sum(greatest(duration, 0)) AS BIGINT) AS duration_ns, "
        "count(*) FILTER (duration < 0) AS without_end "
        f"FROM {source} WHERE {where} GROUP BY ALL",
        params,
    )
    texts = {key: _coded(table.column(key)) for key in keys if key in _TEXTS}
    numbers = {key: table.column(key).to_numpy() for key in keys if key not in _TEXTS}
    sums = (table.column(n).to_numpy() for n in ("events", "self_ns", "duration_ns", "without_end"))
    return Cells(texts, numbers, *sums, table.column("waiting").to_numpy().astype(bool))


def _coded(column: Any) -> tuple[np.ndarray, list[str]]:
    array = column.combine_chunks().dictionary_encode()
    return array.indices.fill_null(-1).to_numpy(), array.dictionary.to_pylist()


def _spans(waits: Marks) -> tuple[np.ndarray, np.ndarray] | None:
    """Start and end of the waits, cut where the next begins."""
    known = np.flatnonzero(waits.duration >= 0)
    start, duration = waits.start[known], waits.duration[known]
    order = np.lexsort((duration, start))
    start, duration = start[order], duration[order]
    stop = start + np.minimum(duration, np.iinfo(np.int64).max - start)
    if len(start) > 1:
        stop[:-1] = np.minimum(stop[:-1], start[1:])
    any_time = stop > start
    return (start[any_time], stop[any_time]) if any_time.any() else None


def _buckets(start: np.ndarray, stop: np.ndarray) -> tuple[int, tuple[list[int], list[int], list[int]]]:
    """The waits once for each stretch of 2**shift ns that they touch, so that equality finds them."""
    covered = float((stop - start).astype(np.float64).sum())
    shift = next(s for s in range(10, 63) if covered / (1 << s) <= _MOST_BUCKETS or s == 62)
    first, last = start >> shift, (stop - 1) >> shift
    count = last - first + 1
    at = np.repeat(np.arange(len(start)), count)
    bucket = first[at] + np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    return shift, (bucket.tolist(), start[at].tolist(), stop[at].tolist())


def waits_of(trace: Trace) -> Marks | None:
    """The waits for data, None where the trace has none."""
    return data_waits(trace) if "data_wait" in kinds_of(trace) else None


def groups(keys: Sequence[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries with equal keys: the group of each of the ``size`` entries, and the first entry of each group."""
    group = np.zeros(size, np.int64)
    for key in keys:
        _, dense = np.unique(key, return_inverse=True)
        _, group = np.unique(group * (int(dense.max(initial=0)) + 1) + dense, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    return group, first


def sums(group: np.ndarray, number: int, values: np.ndarray) -> np.ndarray:
    """The sum of each group. Raises ``UnreadableDataError`` where one overflows."""
    if len(values) and float(np.abs(values.astype(np.float64)).sum()) > _LARGEST:
        raise UnreadableDataError("The trace holds data that this query cannot read: numbers that overflow a sum.")
    result = np.zeros(number, np.int64)
    np.add.at(result, group, values)
    return result
