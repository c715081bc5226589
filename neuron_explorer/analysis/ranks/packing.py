"""Facts of a rank as bytes: a JSON head and one Arrow IPC stream a table. What is read back is checked first."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

import numpy as np
import pyarrow as pa

from neuron_explorer.analysis.ranks.facts import TABLES, VERSION, Columns, Group, RankFacts
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.arrays import values_of
from neuron_explorer.trace.write import integers

MAGIC: Final = b"NXRANK01"
MOST_BYTES: Final = 64 << 20
"""Facts of a rank are never larger; a rank's usually take less than 2 MB."""
MOST_ROWS: Final = 1 << 20
_PLAIN: Final = tuple(f.name for f in fields(RankFacts) if f.name not in ("groups", "texts", "notes", "tables"))
_TYPES: Final = {name: type(getattr(RankFacts(0, 1), name)) for name in _PLAIN}
_GROUP: Final = tuple(f.name for f in fields(Group))


def pack(facts: RankFacts) -> bytes:
    """The facts as bytes."""
    # Columns of one value, as most of many ranks are, take neither bytes nor memory.
    constants = {name: _constant(facts.columns(name)) for name in TABLES}
    parts = [
        _stream({n: v for n, v in facts.columns(name).items() if n not in constants[name]}) for name in TABLES
    ]  # fmt: skip
    head = {
        "version": VERSION,
        **{name: getattr(facts, name) for name in _PLAIN},
        "groups": [{name: getattr(group, name) for name in _GROUP} for group in facts.groups],
        "texts": list(facts.texts),
        "notes": list(facts.notes),
        "sizes": [len(part) for part in parts],
        "rows": [len(next(iter(facts.columns(name).values()))) for name in TABLES],
        "constants": [constants[name] for name in TABLES],
    }
    encoded = json.dumps(head, ensure_ascii=True).encode()
    return b"".join([MAGIC, len(encoded).to_bytes(8, "little"), encoded, *parts])


def unpack(data: bytes | memoryview) -> RankFacts:
    """The facts from bytes. Raises ``BadTraceError``."""
    view = memoryview(data)
    try:
        return _unpack(view)
    except (
        ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError, OSError, pa.ArrowException,
    ) as error:  # fmt: skip
        raise BadTraceError(f"facts of a rank cannot be read: {str(error).splitlines()[0][:200]}.") from None


def _unpack(view: memoryview) -> RankFacts:
    if len(view) > MOST_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        raise ValueError("they are of another kind")
    at = len(MAGIC) + 8
    length = int.from_bytes(view[len(MAGIC) : at], "little")
    head = json.loads(bytes(view[at : at + length]))
    if not isinstance(head, dict) or head.get("version") != VERSION:
        raise ValueError("they are of another version")
    at += length
    tables: dict[str, Columns] = {}
    described = zip(TABLES.items(), head["sizes"], head["rows"], head["constants"], strict=True)
    for (name, columns), size, rows, constants in described:
        if type(size) is not int or size < 0 or at + size > len(view):
            raise ValueError("a table is cut short")
        if type(rows) is not int or not 0 <= rows <= MOST_ROWS:
            raise ValueError("a table has rows that cannot be")
        found = _columns(view[at : at + size], tuple(n for n in columns if n not in constants))
        if any(len(values) != rows for values in found.values()):
            raise ValueError("a table has other rows than it says")
        for column, value in constants.items():
            found[column] = np.broadcast_to(np.int64(_typed(value, int, column)), rows)
        tables[name] = {column: found[column] for column in columns}
        at += size
    groups = tuple(_group(g) for g in head["groups"])
    texts = tuple(str(text) for text in head["texts"])
    _check(tables, len(groups), len(texts))
    plain = {name: _typed(head[name], _TYPES[name], name) for name in _PLAIN}
    return RankFacts(**plain, groups=groups, texts=texts, notes=tuple(str(n) for n in head["notes"]), tables=tables)


def _typed(value: Any, wanted: type, name: str) -> Any:
    if type(value) is not wanted or (isinstance(value, int) and abs(value) >= 1 << 63):
        raise ValueError(f"{name} is of the wrong type")
    return value


def _group(entry: Any) -> Group:
    values = {name: entry[name] for name in _GROUP}
    ranks = values.pop("ranks")
    if not all(type(rank) is int and 0 <= rank < 1 << 31 for rank in ranks):
        raise ValueError("a group holds what is no rank")
    return Group(
        ranks=tuple(ranks), size=_typed(values.pop("size"), int, "size"),
        **{name: _typed(value, str, name) for name, value in values.items()},
    )  # fmt: skip


def _constant(columns: Columns) -> dict[str, int]:
    return {name: int(v[0]) for name, v in columns.items() if len(v) and (v == v[0]).all()}


def _stream(columns: Columns) -> bytes:
    # Arrow's own way from numpy would import pandas.
    table = pa.table({name: integers(values.astype(np.int64), "int64") for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _columns(view: memoryview, names: tuple[str, ...]) -> Columns:
    with pa.ipc.open_stream(pa.py_buffer(view)) as reader:
        if reader.schema.names != list(names) or any(field.type != pa.int64() for field in reader.schema):
            raise ValueError("a table has other columns")
        batches, rows = [], 0
        for batch in reader:
            rows += batch.num_rows
            if rows > MOST_ROWS or any(column.null_count for column in batch.columns):
                raise ValueError("a table has rows that cannot be")
            batches.append(batch)
    table = pa.Table.from_batches(batches, reader.schema)
    return {name: values_of(table.column(name)) for name in names}


def _check(tables: dict[str, Columns], groups: int, texts: int) -> None:
    """Every position is of something that is there."""
    lines = len(tables["lines"]["line"])
    for table, columns in tables.items():
        for name, most in (
            ("group", groups), ("dtype", texts), ("module", texts), ("for_module", texts), ("function", texts),
            ("file", texts), ("cause", texts), ("graph", texts), ("device", texts),
            ("line", lines if table == "collectives" else 1 << 31), ("operation", 12),
        ):  # fmt: skip
            column = columns.get(name)
            if column is not None and len(column) and (column.min() < -1 or column.max() >= most):
                raise ValueError(f"{name} of a row is of nothing")


def text_codes(texts: dict[str, int], values: list[str]) -> np.ndarray:
    """Positions of texts in a table that grows; -1 for ""."""
    return np.array([texts.setdefault(v, len(texts)) if v else -1 for v in values], np.int64)
