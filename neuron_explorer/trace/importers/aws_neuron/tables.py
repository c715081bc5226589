"""The tables of a profile: rows in batches, columns by name, and what the profile's own schema says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..report import Progress
from .losses import Losses
from .values import MISSING, floats, integers, texts

__all__ = ["NEWEST_MAJOR", "Batch", "Field", "Tables", "major"]

NEWEST_MAJOR: Final = 7
"""The major version of the newest schema whose fields are published in full (7.4.0)."""
ROWS: Final = 65_536
MAX_GROUP_BYTES: Final = 2 << 30
"""A larger row group (as its footer says, unpacked, of the columns that are read) is left out."""
MAX_COLUMNS: Final = 5_000
_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "start_ts": ("timestamp", "start_timestamp", "start_time_ns", "start"),
    "end_ts": ("end_timestamp", "end_time_ns", "end"),
    "duration_ns": ("duration",),
    "timestamp": ("start_ts", "ts"),
    "pcore_idx": ("physical_core_idx",),
}
"""Other names of a column, for when it was renamed."""
_SCALES: Final = {"microseconds": 1_000, "us": 1_000, "milliseconds": 1_000_000, "ms": 1_000_000}


@dataclass(frozen=True)
class Field:
    """One field as the profile's ``SchemaFields`` describes it."""

    type: str = ""
    unit: str = ""
    required: bool = False
    maximum: float | None = None


@dataclass(frozen=True)
class Batch:
    """Some rows of one table."""

    table: str
    rows: int
    _data: pa.RecordBatch
    _tables: Tables
    again: bool = False
    """The table was read before: what is wrong with it has been counted."""

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return self._tables.actual(self.table, name, self._data.schema.names) is not None

    def ints(self, name: str) -> np.ndarray:
        """int64, ``MISSING`` where there is nothing; times in ns."""
        found = self._column(name, integers)
        if found is None:
            return np.full(self.rows, MISSING, np.int64)
        scale = _SCALES.get(self._tables.field(self.table, name).unit.lower(), 1) if name.endswith("_ts") else 1
        if self._tables.divisor > 1 and (name.endswith(("_ts", "_ns")) or name in ("timestamp", "duration")):
            found = np.where(found == MISSING, found, found // self._tables.divisor)
        return np.where(found == MISSING, found, found * scale) if scale > 1 else found

    def floats(self, name: str) -> np.ndarray:
        """float64, NaN where there is nothing."""
        found = self._column(name, floats)
        return np.full(self.rows, np.nan) if found is None else found

    def texts(self, name: str) -> pa.Array:
        """Strings, null where there is nothing."""
        found = self._column(name, texts)
        return pa.nulls(self.rows, pa.string()) if found is None else found

    def list(self, name: str) -> list[str | None]:
        """The same as a list."""
        found: list[str | None] = self.texts(name).to_pylist()
        return found

    def numeric(self, name: str) -> bool:
        """Whether the column holds numbers."""
        actual = self._tables.actual(self.table, name, self._data.schema.names)
        kind = self._data.schema.field(actual).type if actual is not None else pa.null()
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    def _column(self, name: str, read: Any) -> Any:
        actual = self._tables.actual(self.table, name, self._data.schema.names)
        if actual is None:
            return None
        try:
            values, wrong = read(self._data.column(actual))
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
            self._tables.losses.add(
                "columns that cannot be read", 1, "their values are not of the type that they say",
                f"{self.table}.{actual}: {_short(error)}",
            )  # fmt: skip
            return None
        if not self.again:
            self._tables.losses.add("values of a wrong type", wrong, "a number was expected", f"{self.table}.{actual}")
        return values


@dataclass
class Tables:
    """All tables of a profile, read in batches. Counts what cannot be read."""

    files: Mapping[str, tuple[Path, ...]]
    losses: Losses
    progress: Progress | None = None
    read: dict[str, int] = field(default_factory=dict)
    """Rows that were read, by table."""
    fields: dict[str, dict[str, Field]] = field(default_factory=dict)
    version: str = ""
    divisor: int = 1
    """Of every time: 1000 where a file counts picoseconds."""
    _names: dict[str, str] = field(default_factory=dict)
    _asked: dict[str, set[str]] = field(default_factory=dict)
    _present: dict[str, set[str]] = field(default_factory=dict)
    _used: dict[str, set[str]] = field(default_factory=dict)
    _counted: set[Path] = field(default_factory=set)
    _complete: set[str] = field(default_factory=set)
    _bad_groups: set[tuple[Path, int]] = field(default_factory=set)
    _total: int = 0
    _done: int = 0

    def __post_init__(self) -> None:
        self._names = {name.lower().replace("_", ""): name for name in self.files}
        self._total = max(1, sum(_size(f) for files in self.files.values() for f in files))

    def has(self, table: str) -> bool:
        """Whether there is a file of this table, whatever is in it."""
        return table.lower() in self._names

    def field(self, table: str, name: str) -> Field:
        """What the profile's schema says of a field."""
        return self.fields.get(table.lower(), {}).get(name, Field())

    def read_schema(self) -> None:
        """Read ``Metadata.profile_schema_version`` and ``SchemaFields``."""
        for table in ("Metadata", "SystemProfileMetadata"):
            for batch in self.batches(table, ("profile_schema_version",)):
                said = [v for v in batch.list("profile_schema_version") if v]
                self.version = self.version or (said[0][:40] if said else "")
        columns = ("table_name", "field_name", "field_type", "field_unit", "field_required", "field_maximum")
        for batch in self.batches("SchemaFields", columns):
            rows = zip(
                batch.list("table_name"), batch.list("field_name"), batch.list("field_type"),
                batch.list("field_unit"), batch.list("field_required"), batch.floats("field_maximum").tolist(),
                strict=True,
            )  # fmt: skip
            for table, name, kind, unit, required, maximum in rows:
                if table and name and len(self.fields) < 1_000:
                    of_table = self.fields.setdefault(table.lower(), {})
                    if len(of_table) < MAX_COLUMNS:
                        limit = maximum if maximum == maximum else None
                        of_table[name] = Field(kind or "", unit or "", required == "true", limit)

    def columns(self, table: str) -> tuple[str, ...]:
        """The names of the columns of a table's first file that can be read."""
        for file in self.files.get(self._names.get(table.lower(), ""), ()):
            try:
                return tuple(pq.read_schema(file).names[:MAX_COLUMNS])
            except (OSError, pa.ArrowException, ValueError, MemoryError):
                continue
        return ()

    def actual(self, table: str, name: str, names: Sequence[str]) -> str | None:
        """The column's name in a file: as it is, in another case, or another name that it is known to have had."""
        found = name if name in names else None
        if found is None:
            lower = {n.lower(): n for n in names}
            found = next((lower[n] for n in (name.lower(), *_OTHER_NAMES.get(name, ())) if n in lower), None)
        if found is not None:
            self._used.setdefault(table, set()).add(found)
        return found

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows of a table, of the columns named that it has. Never more than a batch is in memory."""
        key = self._names.get(table.lower())
        if key is None:
            return
        self._asked.setdefault(table, set()).update(columns)
        rows = 0
        for file in self.files[key]:
            for data in self._of_file(table, file, columns):
                rows += data.num_rows
                self.read[table] = max(self.read.get(table, 0), rows)
                yield Batch(table, data.num_rows, data, self, table in self._complete)
        self._complete.add(table)

    def _of_file(self, table: str, file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        shown = f"{table} ({file.name})"
        try:
            if _size(file) == 0:
                raise ValueError("the file is empty")
            opened = pq.ParquetFile(file, memory_map=False, buffer_size=1 << 20, pre_buffer=False)
        except (OSError, pa.ArrowException, ValueError, MemoryError) as error:
            self._lost_file(file, shown, error)
            return
        with opened:
            names = opened.schema_arrow.names[:MAX_COLUMNS]
            self._present.setdefault(table, set()).update(names)
            wanted = [n for c in columns if (n := self.actual(table, c, names)) is not None]
            wanted = list(dict.fromkeys(wanted))
            if not wanted:
                yield from self._only_rows(opened)
                return
            groups = self._usable_groups(opened, wanted, shown, file)
            yield from self._read(opened, groups, wanted, shown, file)

    def _only_rows(self, opened: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        return
        yield  # a generator of nothing

    def _usable_groups(self, opened: pq.ParquetFile, wanted: list[str], shown: str, file: Path) -> list[int]:
        footer, usable = opened.metadata, []
        positions = {footer.schema.column(i).path.split(".")[0]: i for i in range(min(footer.num_columns, MAX_COLUMNS))}
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            size = sum(group.column(positions[n]).total_uncompressed_size for n in wanted if n in positions)
            if size > MAX_GROUP_BYTES or size < 0 or group.num_rows < 0:
                if not self._first_time(file, number):
                    continue
                self.losses.add(
                    "row groups that are too large", 1, f"more than {MAX_GROUP_BYTES >> 30} GiB unpacked",
                    f"{shown}, row group {number}",
                )  # fmt: skip
                self.losses.add("rows in them", max(group.num_rows, 0), "they were not read", shown)
                continue
            usable.append(number)
        return usable

    def _read(
        self, opened: pq.ParquetFile, groups: list[int], wanted: list[str], shown: str, file: Path
    ) -> Iterator[pa.RecordBatch]:
        first = file not in self._counted
        self._counted.add(file)
        size = _size(file)
        for number in groups:
            expected, got = opened.metadata.row_group(number).num_rows, 0
            try:
                batches = opened.iter_batches(batch_size=ROWS, row_groups=[number], columns=wanted, use_threads=False)
                for batch in batches:
                    got += batch.num_rows
                    yield batch
            except (OSError, pa.ArrowException, ValueError, MemoryError, UnicodeDecodeError) as error:
                if not self._first_time(file, number):
                    continue
                self.losses.add("damaged row groups", 1, _short(error), f"{shown}, row group {number}")
                self.losses.add("rows in damaged row groups", expected - got, "they cannot be read", shown)
            if first:
                self._done += size // max(len(groups), 1)
                if self.progress is not None:
                    self.progress(min(self._done, self._total), self._total)

    def _first_time(self, file: Path, group: int) -> bool:
        """Whether a row group is found bad for the first time; tables may be read again."""
        known = (file, group) in self._bad_groups
        self._bad_groups.add((file, group))
        return not known

    def _lost_file(self, file: Path, shown: str, error: BaseException) -> None:
        if file not in self._counted:
            self._counted.add(file)
            self.losses.add("files that cannot be read", 1, _short(error), shown)

    def count_columns(self) -> dict[str, int]:
        """Count columns that were read, and those that are new, gone or not used."""
        used = sum(len(names) for names in self._used.values())
        for table, present in sorted(self._present.items()):
            said = set(self.fields.get(table.lower(), {}))
            gone = sorted(said - present)
            for required in (True, False):
                names = [n for n in gone if self.field(table, n).required is required]
                what = "columns that are announced but absent" if required else "optional columns that are absent"
                why = "the profile's own schema names them, but its table has no such column"
                self.losses.add(what, len(names), why, f"{table}: {_names(names)}", harmless=not required)
            asked = self._asked.get(table, set())
            sought = sorted(c for c in asked if self.actual(table, c, sorted(present)) is None and c not in said)
            if sought:
                why = "this version does not have them (removed or renamed); what follows from them is absent"
                self.losses.add(
                    "columns that were looked for and are not there", len(sought), why, f"{table}: {_names(sought)}",
                    harmless=not self.newer and not said,
                )  # fmt: skip
            new = sorted(present - said) if said else []
            if new:
                why = "the profile's own schema does not name them"
                where = f"{table}: {_names(new)}"
                self.losses.add("columns that are not announced", len(new), why, where, harmless=True)
            unused = sorted(present - self._used.get(table, set()))
            if unused:
                why = "a trace has no place for them"
                where = f"{table}: {_names(unused)}"
                self.losses.add("columns that are not used", len(unused), why, where, harmless=True)
        return {"columns": used} if used else {}

    @property
    def newer(self) -> bool:
        """The schema's major version is above what is known."""
        number = major(self.version)
        return number is not None and number > NEWEST_MAJOR


def major(version: str) -> int | None:
    """The first number of a version."""
    found = re.match(r"\s*v?(\d{1,6})(?:\.|\s*$)", version)
    return int(found[1]) if found else None


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:200]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
