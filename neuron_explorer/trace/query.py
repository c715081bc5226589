"""SQL over one trace, in a DuckDB that can see that file and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..errors import BadTraceError, NeuronExplorerError
from . import schema
from .sniff import printable
from .statement import hides_nothing, refusal
from .write import default_value

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT: Final = "2GB"
_SQL_TYPES: Final = {
    "text": "VARCHAR",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int16": "SMALLINT",
    "bool": "BOOLEAN",
}


def connect(
    path: Path, columns: Mapping[str, bool], largest: Mapping[str, int] | None = None
) -> duckdb.DuckDBPyConnection:
    """A locked connection with the views events, frames and sources over ``path``.

    ``columns`` names the columns that the file has and tells which of them may hold nulls that
    the schema does not know; what is missing or null reads as its default. Raises
    ``BadTraceError`` when DuckDB cannot make sense of the file.
    """
    import duckdb

    connection = duckdb.connect(":memory:", config=configuration(MEMORY_LIMIT, min(4, os.cpu_count() or 1)))
    try:
        for statement in setup_statements(path, columns, largest):
            connection.execute(statement)
    except duckdb.Error as error:
        connection.close()
        raise BadTraceError(f"{printable(path)} is damaged: {_first_line(error)}; copy it again.") from None
    return connection


def configuration(memory: str, threads: int) -> dict[str, str | bool | int | float | list[str]]:
    """How DuckDB is started: no extensions, no temporary files."""
    return {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "memory_limit": memory,
        "threads": str(threads),
        "temp_directory": "",
    }


def setup_statements(
    path: Path, columns: Mapping[str, bool], largest: Mapping[str, int] | None = None
) -> list[str]:
    """What makes a fresh connection one that sees the trace and nothing else, in this order.

    ``largest``: what columns of events may be at most (``impossible.Limits``); rows beyond are left out.
    """
    # Names with [, * or ? are patterns to DuckDB: the escaped form is opened, and both forms are checked.
    escaped = _literal(_escape_glob(os.fspath(path)))
    source = f"read_parquet({escaped}, hive_partitioning=false)"
    chosen = {c.name: _expression(c, columns) for c in schema.COLUMNS}

    rows = source
    if "top_level" not in columns:
        # Callers are distinct, so that a query that does not ask for the column skips the join.
        operator = _operator_sql(chosen)
        callers = f"SELECT DISTINCT {chosen['id']} AS caller FROM {source} WHERE start >= 0 AND NOT {operator}"
        rows = f"{source} LEFT JOIN ({callers}) AS callers ON {chosen['parent']} = callers.caller"
        chosen["top_level"] = f"coalesce({operator} AND ({chosen['parent']} < 0 OR callers.caller IS NOT NULL), FALSE)"

    def picked(*names: str) -> str:
        return ", ".join(f'{chosen[n]} AS "{n}"' for n in names)

    possible = "".join(f" AND {chosen[name]} <= {int(most)}" for name, most in (largest or {}).items())
    return [
        f"SET allowed_paths=[{_literal(os.fspath(path))}, {escaped}]",
        "SET python_enable_replacements=false",
        "SET enable_external_access=false",
        # Events have a start, table rows have -1; the column's statistics skip whole row groups.
        f"CREATE VIEW events AS SELECT {picked(*schema.COLUMN_NAMES)} FROM {rows} WHERE start >= 0{possible}",
        f"CREATE VIEW frames AS SELECT {picked('id', 'parent', 'file', 'line', 'function')} FROM {source} "
        "WHERE start < 0 AND kind = 'frame'",
        f"CREATE VIEW sources AS SELECT {picked('file', 'text')} FROM {source} WHERE start < 0 AND kind = 'source'",
        "SET lock_configuration=true",
    ]


def _operator_sql(chosen: Mapping[str, str]) -> str:
    kinds = ", ".join(_literal(kind) for kind in schema.OPERATOR_KINDS)
    engine = f"coalesce(starts_with({chosen['name']}, {_literal(schema.ENGINE_PREFIX)}), FALSE)"
    return f"({chosen['kind']} IN ({kinds}) AND NOT {engine})"


def select(connection: duckdb.DuckDBPyConnection, statement: str, params: Sequence[Any]) -> pa.Table:
    """The result of one SELECT, run on a cursor of its own; anything else is refused.

    COPY is the reason: a path that may be read may also be written, and it can hide in a WITH.
    """
    import duckdb

    cursor = connection.cursor()
    try:
        statements = cursor.extract_statements(statement)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("only a single SELECT can be run on a trace.")
        refused = None if hides_nothing(statement) else refusal(cursor, statement)
        if refused is not None:
            raise QueryError(refused.reason)
        return _with_integers(cursor.sql(statement, params=list(params)).to_arrow_table())
    except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException,
            duckdb.IOException, pa.ArrowException) as error:  # fmt: skip
        raise UnreadableDataError(f"The trace holds data that this query cannot read: {_first_line(error)}.") from None
    except duckdb.Error as error:
        raise QueryError(str(error)) from None
    finally:
        cursor.close()


def _with_integers(table: pa.Table) -> pa.Table:
    """The sum of integers is a 128-bit one to DuckDB, which pandas would show as Decimal objects."""
    for position, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                column = table.column(position).cast(pa.int64())
            except pa.ArrowInvalid:
                column = table.column(position).cast(pa.float64())
            table = table.set_column(position, field.name, column)
    return table


class QueryError(NeuronExplorerError):
    """A query on a trace that is not a SELECT, or that failed."""

    exit_code = 2


class UnreadableDataError(BadTraceError, QueryError):
    """A query that met values it cannot work with: damaged text, numbers that overflow a sum."""

    exit_code = 4


def _expression(column: schema.Column, columns: Mapping[str, bool]) -> str:
    if column.name not in columns:
        return _default_sql(column)
    quoted = f'"{column.name}"'
    return f"coalesce({quoted}, {_default_sql(column)})" if columns[column.name] else quoted


def _first_line(error: BaseException) -> str:
    return printable(str(error).strip().split("\n")[0])[:200].rstrip(". ")


def _default_sql(column: schema.Column) -> str:
    value = default_value(column)
    text = "NULL" if value is None else str(value)
    return f"CAST({text} AS {_SQL_TYPES[column.type]})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escape_glob(path: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)
