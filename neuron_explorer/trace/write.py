"""Write a trace: columns in, one Parquet file out, whole or not at all.

``TraceWriter`` takes any subset of the schema's columns and fills the rest with "nothing
to say". Text may be given as lists, or as ``Coded`` integer codes into a table of values,
which is written as a Parquet dictionary without ever building the strings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import OutputError
from . import schema
from .arrays import values_of
from .metadata import default_metadata
from .top_level import TopLevel, codes_of

if TYPE_CHECKING:
    ColumnData = Any

__all__ = ["Coded", "TraceWriter", "write_trace"]

_DEFAULTS: Final = {"depth": 0, "lane": 0, "rank": 0, "thread": 0, "outermost_on_line": True, "top_level": False}
_NUMPY: Final = {"int64": np.int64, "int32": np.int32, "int16": np.int16, "bool": np.bool_}
_ARROW: Final = {"int64": pa.int64(), "int32": pa.int32(), "int16": pa.int16()}
# Close to unique, or jumping back and forth: a dictionary only costs.
_PLAIN: Final = ("duration", "self", "parent", "sequence", "correlation", "correlation_id")
_FASTEST: Final = ("duration", "self")
_DICTIONARY_PAGE_BYTES: Final = 64 << 20
_TYPES: Final = {c.name: c.type for c in schema.COLUMNS}
_POSITION: Final = {name: position for position, name in enumerate(schema.COLUMN_NAMES)}


class Coded(NamedTuple):
    """A text column as integer codes into ``values``; code -1 is null."""

    codes: np.ndarray
    values: Any


class TraceWriter:
    """Writes rows, one row group per ``write_rows``, to ``path`` by way of a temporary file.

    The file appears under its name only when ``close`` succeeds; ``abort`` (or an exception
    inside a ``with`` block) leaves nothing behind. Raises ``OutputError`` when the path
    cannot be written. ``repeating``: columns of numbers of which there are few, over and over (times in whole
    microseconds): a dictionary makes them smaller.
    """

    def __init__(
        self, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None, *,
        repeating: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.path = Path(path)
        self.rows = 0
        self._metadata = default_metadata(metadata)
        self._temporary = self.path.with_name(f"{self.path.name}.tmp-{os.getpid()}-{os.urandom(4).hex()}")
        self._schema = schema.arrow_schema()
        self._constants: dict[str, tuple[int, pa.Array]] = {}
        self._top_level = TopLevel()
        self._sink: Any = None
        self._writer: Any = None
        self._open(repeating)

    def write_rows(self, columns: Mapping[str, ColumnData]) -> None:
        """Append rows. A value is a list, an array, a ``Coded``, or a scalar for every row.

        Missing columns get their default; ``top_level`` is worked out (of all rows or of none). Rows
        must come in the file's order: frame and source rows first, then events by start. Raises
        ``ValueError`` for an unknown column or unequal lengths.
        """
        unknown = set(columns) - set(_TYPES)
        if unknown:
            raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
        lengths = {_length(v) for v in columns.values()} - {None}
        if len(lengths) > 1:
            raise ValueError(f"columns of unequal length: {sorted(lengths)}")  # type: ignore[type-var]
        rows = lengths.pop() if lengths else int(bool(columns))
        if not rows:
            return
        arrays = [
            _column(c, columns[c.name], rows) if c.name in columns else self._constant(c, rows) for c in schema.COLUMNS
        ]
        if "top_level" not in columns and "start" in columns:
            given = (arrays[_POSITION[n]] for n in ("kind", "name", "start", "id", "parent"))
            top = self._top_level.column(*given)
            if "lane" in columns:
                top &= ~self._flights(arrays)
            arrays[_POSITION["top_level"]] = integers(top, "bool")
        batch = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(batch, row_group_size=rows)
        self.rows += rows

    @staticmethod
    def _flights(arrays: list[Any]) -> np.ndarray:
        """Rows that say how long a collective was under way: no launch, that was the row they point at."""
        kind = arrays[_POSITION["kind"]]
        collective = np.array([*(k == "collective" for k in kind.dictionary.to_pylist()), False])[codes_of(kind)]
        thread, stream = (values_of(arrays[_POSITION[n]]) for n in ("thread", "stream"))
        flights: np.ndarray = collective & (thread < 0) & (stream < 0)
        return flights

    def close(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Finish the file and give it its name. ``metadata`` replaces top-level entries."""
        if self._writer is None:
            return
        self._metadata.update(metadata or {})
        text = json.dumps(self._metadata, separators=(",", ":"))
        self._writer.add_key_value_metadata({schema.METADATA_KEY.decode(): text})
        try:
            self._writer.close()
            self._sink.close()
            os.replace(self._temporary, self.path)
        except OSError as error:
            self.abort()
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        self._writer = None

    def abort(self) -> None:
        """Drop what was written; the path is left as it was."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.is_open = False  # closing would append a footer to a file that is thrown away
            self._sink.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _open(self, repeating: Sequence[str]) -> None:
        try:
            self._sink = pa.OSFile(os.fspath(self._temporary), "wb")
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        plain = {*schema.DELTA_COLUMNS, *_PLAIN}.difference(repeating)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            compression_level=_compression_levels(),
            use_dictionary=[c.name for c in schema.COLUMNS if c.name not in plain and c.type != "bool"],
            column_encoding=dict.fromkeys(schema.DELTA_COLUMNS, "DELTA_BINARY_PACKED"),
            dictionary_pagesize_limit=_DICTIONARY_PAGE_BYTES,
            # Bounds of text skip nothing (names occur everywhere) and take a sixth of the writing time.
            write_statistics=["kind", *(c.name for c in schema.COLUMNS if c.type != "text")],
        )

    def _constant(self, column: schema.Column, rows: int) -> pa.Array:
        known = self._constants.get(column.name)
        if known is None or known[0] < rows:
            known = rows, _column(column, default_value(column), rows)
            self._constants[column.name] = known
        return known[1] if known[0] == rows else known[1].slice(0, rows)


def _compression_levels() -> dict[str, int]:
    # Measured on recordings of GPT training: the codes of a dictionary gain from a higher level
    # (repeating layers), durations are smallest at the lowest.
    return {c.name: 1 if c.name in _FASTEST else 3 if c.name in (*schema.DELTA_COLUMNS, *_PLAIN) else 5
            for c in schema.COLUMNS}  # fmt: skip


def default_value(column: schema.Column) -> int | bool | None:
    """What a column holds when there is nothing to say."""
    return None if column.type == "text" else _DEFAULTS.get(column.name, schema.NONE)


def integers(values: np.ndarray, type_name: str) -> pa.Array:
    """A null-free Arrow array over the memory of ``values`` (no copy when the type fits)."""
    # Not pa.array(): that looks for pandas, and importing it takes longer than the conversion.
    data = np.ascontiguousarray(values, dtype=_NUMPY[type_name])
    if type_name == "bool":
        bits = np.packbits(data, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(data), [None, pa.py_buffer(bits)])
    return pa.Array.from_buffers(_ARROW[type_name], len(data), [None, pa.py_buffer(data)])


def dictionary(codes: np.ndarray, values: Any) -> pa.DictionaryArray:
    """A dictionary array; codes below 0 are null."""
    indices = np.ascontiguousarray(codes, dtype=np.int32)
    valid = indices >= 0
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    array = pa.Array.from_buffers(pa.int32(), len(indices), [bitmap, pa.py_buffer(indices)])
    if not isinstance(values, pa.Array):
        values = strings(values)
    return pa.DictionaryArray.from_arrays(array, values, safe=bitmap is None)


def strings(values: Sequence[str]) -> pa.Array:
    """A string array; what is not valid Unicode (a lone surrogate in a path) is escaped."""
    encoded = [v.encode("utf-8", "backslashreplace") for v in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(e) for e in encoded], out=offsets[1:], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def write_trace(
    path: str | os.PathLike[str],
    events: Mapping[str, ColumnData] | Sequence[Mapping[str, Any]],
    *,
    frames: Sequence[Mapping[str, Any]] = (),
    sources: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write a small trace in one call; meant for tests and for traces that are made up.

    ``events`` is a column → values mapping or a list of rows (dicts). They are sorted by
    start, numbered when they have no ``id``, and their ``self`` is their duration where it
    is missing. ``frames`` holds rows with id, parent, file, line, function; ``sources`` maps
    a file to its text. Counts, duration and lanes of the metadata are derived unless given.
    """
    columns = _as_columns(events)
    rows = max((_length(v) or 0 for v in columns.values()), default=0)
    columns.setdefault("kind", ["op"] * rows)
    columns.setdefault("start", list(range(rows)))
    columns.setdefault("duration", [0] * rows)
    columns.setdefault("self", columns["duration"])
    columns.setdefault("id", list(range(rows)))
    order = np.argsort(np.asarray(columns["start"]), kind="stable")
    columns = {k: [v[i] for i in order] if _length(v) == rows else v for k, v in columns.items()}
    given = dict(metadata or {})
    given = _derived(columns, rows) | given
    with TraceWriter(path, given) as writer:
        if frames:
            attribution = [f.get("attribution", "stack") for f in frames]
            table = {k: [f.get(k) for f in frames] for k in ("id", "parent", "file", "line", "function")}
            writer.write_rows({"kind": "frame", "attribution": attribution, **table})
        if sources:
            writer.write_rows({"kind": "source", "file": list(sources), "text": list(sources.values())})
        writer.write_rows(columns)
    return Path(path)


def _derived(columns: Mapping[str, Any], rows: int) -> dict[str, Any]:
    from .metadata import thread_lane

    ends = [s + max(d, 0) for s, d in zip(columns["start"], columns["duration"], strict=True)]
    lanes = columns.get("lane", 0)
    count = 1 + max(lanes if isinstance(lanes, list) and lanes else [lanes if isinstance(lanes, int) else 0])
    kinds = columns["kind"] if isinstance(columns["kind"], list) else [columns["kind"]] * rows
    counts = default_metadata()["counts"] | {
        "events": rows,
        "by_kind": {k: kinds.count(k) for k in sorted(set(kinds))},
    }
    names = ["main thread", *(f"thread {i}" for i in range(1, count))]
    return {
        "duration_ns": max(ends, default=0),
        "counts": counts,
        "lanes": [thread_lane(i, name) for i, name in enumerate(names)],
    }


def _as_columns(events: Mapping[str, ColumnData] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(events, Mapping):
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in events.items()}
    names = [n for n in schema.COLUMN_NAMES if any(n in row for row in events)]
    unknown = {k for row in events for k in row} - set(names)
    if unknown:
        raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
    fallback = {c.name: default_value(c) for c in schema.COLUMNS} | {"duration": 0, "start": 0, "kind": "op"}
    if "self" in names:
        return {n: [row.get(n, row.get("duration", 0) if n == "self" else fallback[n]) for row in events]
                for n in names}  # fmt: skip
    return {n: [row.get(n, fallback[n]) for row in events] for n in names}


def _length(value: ColumnData) -> int | None:
    if value is None or isinstance(value, (str, int, bool, np.generic)):
        return None
    return len(value.codes) if isinstance(value, Coded) else len(value)


def _column(column: schema.Column, value: ColumnData, rows: int) -> pa.Array:
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if isinstance(value, pa.Array):
        return value
    if column.type != "text":
        if _length(value) is None:
            return integers(np.full(rows, default_value(column) if value is None else value), column.type)
        if not isinstance(value, np.ndarray):
            value = np.asarray([default_value(column) if v is None else v for v in value])
        return integers(value, column.type)
    if isinstance(value, Coded):
        return dictionary(value.codes, value.values)
    if value is None:
        return dictionary(np.full(rows, -1, np.int32), [])
    if isinstance(value, str):
        return dictionary(np.zeros(rows, np.int32), [value])
    table: dict[str, int] = {}
    codes = [-1 if v is None else table.setdefault(str(v), len(table)) for v in value]
    return dictionary(np.asarray(codes, np.int32), list(table))
