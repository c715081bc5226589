"""Open and query a trace.

    from neuron_explorer.trace.store import load
    with load("trace.parquet") as trace:
        trace.sql("SELECT name, sum(self) FROM events GROUP BY name")

A trace is data from elsewhere: its columns, sizes and metadata are checked before they are
used, and nothing that it names is opened.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import BadTraceError
from . import meta as metadata_module
from . import query, schema
from .arrays import values_of
from .impossible import Limits, above, limits
from .sniff import printable, refuse_unless_parquet
from .top_level import TopLevel, codes_of
from .write import default_value, dictionary, integers

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

__all__ = ["Frame", "Parts", "Trace", "load"]

MAX_ROWS: Final = 2_000_000_000
MAX_STACK_DEPTH: Final = 10_000
_THRIFT_STRING_LIMIT: Final = 64 << 20
_THRIFT_CONTAINER_LIMIT: Final = 4_000_000


@dataclass(frozen=True)
class Frame:
    """One frame of a Python stack. ``user`` marks frames of the user's own code."""

    file: str
    line: int
    function: str
    user: bool


@dataclass(frozen=True)
class Parts:
    """Parts of a trace. ``in_order``: they must be read one after the other."""

    readers: tuple[Callable[[], pa.Table], ...]
    in_order: bool = False


def load(path: str | os.PathLike[str]) -> Trace:
    """Open the trace at ``path``.

    Raises ``BadTraceError``, whose text says in one line what the file is and what to do,
    when it is missing, empty, cut short, of another kind, or written by a newer version.
    """
    file = Path(path)
    refuse_unless_parquet(file)
    shown = printable(file)
    try:
        parquet = pq.ParquetFile(
            os.fspath(file),
            thrift_string_size_limit=_THRIFT_STRING_LIMIT,
            thrift_container_size_limit=_THRIFT_CONTAINER_LIMIT,
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadTraceError(f"{shown} is damaged: {_first_line(error)}; copy it again.") from None
    with parquet:
        footer = parquet.metadata
        try:
            # Decoding the stored Arrow schema is where foreign or forged types show up.
            columns = {field.name: field for field in parquet.schema_arrow}
        except (pa.ArrowException, ValueError, NotImplementedError) as error:
            raise BadTraceError(f"{shown} is damaged: {_first_line(error)}; copy it again.") from None
        raw = (footer.metadata or {}).get(schema.METADATA_KEY)
        if raw is None:
            names = printable(", ".join(list(columns)[:4]))[:120]
            raise BadTraceError(
                f"{shown} is a Parquet file but not a trace (its columns: {names}…); "
                "give a trace written by neuron_explorer.profile()."
            )
        document = metadata_module.parse(raw, shown)
        _check_columns(columns, shown)
        if len(columns) != footer.num_columns:
            raise BadTraceError(f"{shown} is damaged: a column appears twice.")
        _check_rows(footer, file.stat().st_size, shown)
        return Trace(file, document, footer, columns)


class Trace:
    """An open trace. Reads may come from several threads at once.

    Attributes:
        path: the file.
        metadata: the metadata document, every top-level entry present.
        meta: the same, typed.
    """

    def __init__(
        self, path: Path, document: dict[str, Any], footer: pq.FileMetaData, columns: dict[str, pa.Field]
    ) -> None:
        """Use ``load``."""
        self.path = path
        self.metadata = document
        self.meta = metadata_module.typed(document)
        self._footer = footer
        self._columns = columns
        self._lock = threading.Lock()
        self._events: pd.DataFrame | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._frame_table: dict[int, tuple[int, Frame]] | None = None
        self._source_table: dict[str, str] | None = None
        self._limits: Limits | None = None
        self._event_groups, self._table_groups = _split_groups(footer)

    @property
    def rows(self) -> int:
        """Rows of the file, those of tables included."""
        return int(self._footer.num_rows)

    def set_aside(self) -> Limits:
        """Which times are impossible: rows that hold such are in no view, table or part."""
        if self._limits is None:  # at worst worked out twice
            groups = [group for group, _ in self._event_groups]
            self._limits = limits(self._footer, groups, partial(self._read_group, threads=False))
        return self._limits

    @property
    def events(self) -> pd.DataFrame:
        """The events, sorted by start, with the columns of ``schema.CORE_COLUMNS``.

        Text columns are categorical. Built at first use and kept; use ``read`` or ``sql``
        for other columns or for part of the trace.
        """
        with self._lock:
            if self._events is None:
                self._events = self.read(schema.CORE_COLUMNS).to_pandas()
            return self._events

    def read(
        self,
        columns: Iterable[str],
        *,
        kinds: Iterable[str] | None = None,
        window: tuple[int, int] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Events as an Arrow table of ``columns``, in the order of the file (by start).

        ``kinds`` keeps only these kinds; ``window`` = (from, to) in ns since the trace's start
        keeps what overlaps [from, to) (an event without a known end counts as an instant);
        ``limit`` stops after so many rows.
        """
        wanted = list(dict.fromkeys(columns))
        unknown = set(wanted) - set(schema.COLUMN_NAMES)
        if unknown:
            raise ValueError(f"unknown columns: {', '.join(sorted(unknown))}")
        keep = None if kinds is None else list(kinds)
        needed = [
            *wanted,
            "start",
            *(["kind"] if keep is not None else []),
            *(["duration"] if window else []),
            *self.set_aside().largest,
        ]
        parts: list[pa.Table] = []
        rows = 0
        read = self._reader(dict.fromkeys(needed))
        for group, low in self._event_groups:
            if window and low is not None and low >= window[1]:
                break
            part = _filtered(read(group), keep, window, self.set_aside().largest).select(wanted)
            parts.append(part if limit is None else part.slice(0, limit - rows))
            rows += parts[-1].num_rows
            if limit is not None and rows >= limit:
                break
        if not parts:
            return schema.arrow_schema().empty_table().select(wanted)
        return pa.concat_tables(parts).unify_dictionaries()

    def sql(self, statement: str, params: Sequence[Any] = ()) -> pd.DataFrame:
        """The result of one SELECT, as a DataFrame.

        Views: ``events`` (every column of the schema, no frame or source rows),
        ``frames(id, parent, file, line, function)`` and ``sources(file, text)``. ``params``
        replaces the question marks. Raises ``QueryError`` for anything but a SELECT that works.
        """
        return self.sql_arrow(statement, params).to_pandas()

    def sql_arrow(self, statement: str, params: Sequence[Any] = ()) -> pa.Table:
        """As ``sql``, as an Arrow table and without importing pandas."""
        with self._lock:
            if self._connection is None:
                self._connection = query.connect(
                    self.path.absolute(), self.nullable_columns(), self.set_aside().largest
                )
            connection = self._connection
        return query.select(connection, statement, params)

    def nullable_columns(self) -> dict[str, bool]:
        """The columns that the file has, and whether they may hold nulls that the schema does not know."""
        return {n: f.nullable and n not in schema.TEXT_COLUMNS for n, f in self._columns.items()}

    def groups(self) -> Iterator[pa.Table]:
        """The whole file, tables and events, every column of the schema, one row group at a time."""
        read = self._reader(schema.COLUMN_NAMES)
        for group in range(self._footer.num_row_groups):
            yield read(group)

    def parts(self, columns: Iterable[str]) -> Parts:
        """The events in parts that are read when they are asked for, for analyses that look at all of them once.

        Tables of ``columns``, in the order of the file, text as dictionaries. Several threads may read.
        """
        names = list(dict.fromkeys(columns))
        in_order = "top_level" in names and "top_level" not in self._columns
        whole = self._reader(names, threads=False)
        aside = self.set_aside()
        checked = self._reader(dict.fromkeys([*names, "start", *aside.largest]), threads=False)
        # A row group of events alone need not be looked through for rows of tables.
        readers = tuple(
            partial(whole, group) if not in_order and low is not None and low >= 0 and group not in aside.groups
            else partial(_events_of, checked, group, names, aside.largest)
            for group, low in self._event_groups
        )  # fmt: skip
        return Parts(readers, in_order)

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """The Python stack whose innermost frame is ``frame_id``, innermost first."""
        with self._lock:
            if self._frame_table is None:
                self._frame_table = self._load_frames()
            table = self._frame_table
        frames: list[Frame] = []
        current = int(frame_id)
        while current in table and len(frames) < MAX_STACK_DEPTH:
            current, frame = table[current]
            frames.append(frame)
        return tuple(frames)

    def frames(self) -> pa.Table:
        """The calling-context tree, a row per frame: id, parent (-1 at the top), file, line, function, and
        attribution ("stack" of the user's own code, "library_frame" outside torch, null for the rest).
        """
        names = ("kind", "id", "parent", "file", "line", "function", "attribution")
        return self._tables(names, "frame").drop_columns(["kind"])

    def source(self, file: str) -> str | None:
        """The text of ``file`` as it is stored in the trace; None when it is not."""
        with self._lock:
            if self._source_table is None:
                rows = self._tables(["kind", "file", "text"], "source")
                self._source_table = {
                    f: t for f, t in zip(rows["file"].to_pylist(), rows["text"].to_pylist(), strict=True) if f and t
                }
            return self._source_table.get(file)

    def sources(self) -> tuple[str, ...]:
        """The files whose text is stored in the trace."""
        self.source("")
        return tuple(self._source_table or ())

    def close(self) -> None:
        """Release the query engine. Closing twice is harmless."""
        with self._lock:
            connection, self._connection = self._connection, None
            self._events = None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Trace {printable(self.path)}: {self.metadata['counts'].get('events', 0)} events>"

    def _load_frames(self) -> dict[int, tuple[int, Frame]]:
        rows = self._tables(["kind", "id", "parent", "file", "line", "function", "attribution"], "frame")
        columns = [rows[n].to_pylist() for n in ("id", "parent", "file", "line", "function", "attribution")]
        return {i: (p, Frame(f or "", n, g or "", a == "stack")) for i, p, f, n, g, a in zip(*columns, strict=True)}

    def _tables(self, columns: Sequence[str], kind: str) -> pa.Table:
        parts = [_of_kind(self._read_group(g, columns), kind) for g in self._table_groups]
        return pa.concat_tables(parts) if parts else schema.arrow_schema().empty_table().select(list(columns))

    def _reader(self, columns: Iterable[str], threads: bool = True) -> Callable[[int], pa.Table]:
        """Reads row groups, asked for from the first with events on; works out what the file does not hold."""
        names = list(columns)
        if "top_level" not in names or "top_level" in self._columns:
            return lambda group: self._read_group(group, names, threads)
        needed = ("kind", "name", "start", "id", "parent")
        seen = TopLevel()

        def read(group: int) -> pa.Table:
            table = self._read_group(group, dict.fromkeys([*names, *needed]), threads)
            top = seen.column(*(_one_chunk(table[n]) for n in needed))
            return table.set_column(names.index("top_level"), "top_level", integers(top, "bool")).select(names)

        return read

    def _read_group(self, group: int, columns: Iterable[str], threads: bool = True) -> pa.Table:
        names = list(columns)
        present = [n for n in names if n in self._columns]
        try:
            # A reader per call: one must not be shared between threads.
            with pq.ParquetFile(os.fspath(self.path), metadata=self._footer) as file:
                table = file.read_row_group(group, columns=present, use_threads=threads)
            return pa.table({n: _conform(table, n) for n in names})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise BadTraceError(f"{printable(self.path)} is damaged: {_first_line(error)}.") from None


def _of_kind(table: pa.Table, kind: str) -> pa.Table:
    # Comparing with a Python value would import pandas.
    kinds = _one_chunk(table["kind"])
    wanted = np.array([*(text == kind for text in kinds.dictionary.to_pylist()), False])
    return _only(table, wanted[codes_of(kinds)])


def _events_of(read: Callable[[int], pa.Table], group: int, names: list[str], largest: dict[str, int]) -> pa.Table:
    return _filtered(read(group), None, None, largest).select(names)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    array = column.unify_dictionaries().combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _conform(table: pa.Table, name: str) -> Any:
    field = schema.arrow_schema().field(name)
    if name not in table.column_names:
        absent = next(c for c in schema.COLUMNS if c.name == name)
        # Not pa.repeat(): a scalar of Arrow looks for pandas.
        if absent.type == "text":
            return dictionary(np.full(table.num_rows, -1, np.int32), [])
        return integers(np.full(table.num_rows, default_value(absent)), absent.type)
    column = table[name]
    if pa.types.is_dictionary(field.type):
        if column.type != field.type:
            value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            column = column.cast(value_type).cast(pa.string()).dictionary_encode()
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)  # pyarrow reads bytes that are no UTF-8 without a word
        return column
    if column.null_count:
        value = default_value(next(c for c in schema.COLUMNS if c.name == name))
        column = column.fill_null(pa.scalar(value, column.type))
    return column if column.type == field.type else column.cast(field.type)


def _filtered(
    table: pa.Table, kinds: list[str] | None, window: tuple[int, int] | None, largest: dict[str, int]
) -> pa.Table:
    # Not by Arrow's functions: importing them, and pandas with them, takes longer than many a trace.
    start = values_of(table["start"])
    keep = start >= 0
    if largest:
        keep &= ~above(table, largest)
    if kinds is not None:
        kind = _one_chunk(table["kind"])
        keep &= np.array([*(text in kinds for text in kind.dictionary.to_pylist()), False])[codes_of(kind)]
    if window is not None:
        # Widened by an instant's width of zero: an event that begins at `from` is inside.
        end = start + np.maximum(values_of(table["duration"]), 0)
        keep &= ((end > window[0]) | (start >= window[0])) & (start < window[1])
    return _only(table, keep)


def _only(table: pa.Table, keep: np.ndarray) -> pa.Table:
    rows = np.flatnonzero(keep)
    if not len(rows):
        return table.slice(0, 0)
    if int(rows[-1]) - int(rows[0]) < len(rows):  # as a rule, since tables come before events
        return table.slice(int(rows[0]), len(rows))
    return table.filter(integers(keep, "bool"))


def _split_groups(footer: pq.FileMetaData) -> tuple[list[tuple[int, int | None]], list[int]]:
    """Row groups that may hold events (with their first start), and those that may hold tables."""
    events: list[tuple[int, int | None]] = []
    tables: list[int] = []
    index = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == "start"), None)
    for group in range(footer.num_row_groups):
        stats = None if index is None else footer.row_group(group).column(index).statistics
        if stats is None or not stats.has_min_max:
            events.append((group, None))
            tables.append(group)
            continue
        if stats.max >= 0:
            events.append((group, stats.min))
        if stats.min < 0:
            tables.append(group)
    return events, tables


def _check_columns(columns: dict[str, pa.Field], shown: str) -> None:
    required = {*schema.CORE_COLUMNS, "stack"}
    for column in schema.COLUMNS:
        found = columns.get(column.name)
        if found is None:
            if column.name in required:
                raise BadTraceError(f"{shown} is damaged: the column '{column.name}' is missing.")
        elif not _fits(column.type, found.type):
            raise BadTraceError(f"{shown} is damaged: the column '{column.name}' is of type {found.type}.")


def _fits(wanted: str, found: pa.DataType) -> bool:
    if wanted == "text":
        value = found.value_type if pa.types.is_dictionary(found) else found
        return pa.types.is_string(value) or pa.types.is_large_string(value)
    if wanted == "bool":
        return pa.types.is_boolean(found)
    return pa.types.is_signed_integer(found) and found.bit_width <= int(wanted.removeprefix("int"))


def _check_rows(footer: pq.FileMetaData, size: int, shown: str) -> None:
    rows = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    # Even a trace of identical events needs some bytes a row: more rows are a decompression bomb.
    bound = min(MAX_ROWS, 1_000_000 + 64 * size)
    if any(r < 0 for r in rows) or sum(rows) != footer.num_rows or footer.num_rows > bound:
        raise BadTraceError(f"{shown} is damaged: it claims {footer.num_rows:,} rows.")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return printable(lines[0])[:200].rstrip(". ") if lines else type(error).__name__
