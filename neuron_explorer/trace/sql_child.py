"""The process that runs one query of a user: started with a request on its input, answers, ends.

    python -I -S -c BOOT       (trace/sql_process.py)

It imports DuckDB and nothing else that is large. Before the trace is opened it gives up what
it does not need (trace/confine.py); the statement is looked at by trace/statement.py.
"""

from __future__ import annotations

import contextlib
import decimal
import json
import math
import sys
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.trace import confine
from neuron_explorer.trace.statement import refusal

if TYPE_CHECKING:
    import duckdb

_EXACT: Final = 1 << 53
_NUMBERS: Final = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL",
)  # fmt: skip
_BEFORE: Final = "SELECT * FROM (\n"
# DuckDB looks there for the memory it may use when it starts.
_ABOUT_THE_MACHINE: Final = ("/proc/self/cgroup", "/proc/meminfo", "/sys/fs/cgroup")
_FETCH: Final = 500
_LONGEST_ERROR: Final = 2_000


def main(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request of ``sql_process.run``: rows, or an error in words."""
    import duckdb

    _import_early()
    confine.give_way()
    confine.limit_time(request["wall_s"], request["cpu_s"])
    confine.limit_writing()
    confine.limit_memory(request["memory"])
    # Before the connection makes its threads: they are confined as this one is.
    readable = [request["trace"], *_ABOUT_THE_MACHINE]
    confined = confine.limit_files(readable, request["listed"]) if request["confine"] else False
    try:
        connection = duckdb.connect(":memory:", config=request["config"])
    except (duckdb.Error, MemoryError) as error:
        return {"not_started": _said(error)[0], "confined": confined}
    with contextlib.suppress(duckdb.Error):
        connection.execute("SET TimeZone = 'UTC'")  # the only one that is at hand, see above
    try:
        for statement in request["setup"]:
            connection.execute(statement)
    except (duckdb.Error, MemoryError) as error:
        return {"error": f"The trace cannot be read: {_said(error)[0]}", "position": None, "confined": confined}
    return {**_answer(connection, request), "confined": confined}


def _import_early() -> None:
    """What DuckDB imports when it meets certain values: later, files are out of reach."""
    import datetime  # noqa: F401
    import uuid  # noqa: F401
    import zoneinfo

    with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError):
        zoneinfo.ZoneInfo("UTC")
    with contextlib.suppress(ImportError):
        import pytz  # noqa: F401


def _answer(connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> dict[str, Any]:
    import duckdb

    text = request["statement"]
    before = 0  # bytes of what is run that stand before the user's text
    try:
        refused = refusal(connection, text)
        if refused is not None:
            return {"error": refused.reason, "position": _characters(text, refused.position)}
        body = connection.extract_statements(text)[0].query
        before = len(_BEFORE) - len(text[: max(0, text.find(body))].encode())
        result = connection.execute(f"{_BEFORE}{_without_end(body)}\n) LIMIT {int(request['rows']) + 1}")
        return _rows(result, request)
    except (MemoryError, duckdb.OutOfMemoryException):
        return {"error": f"The query needs more memory than the {request['config']['memory_limit']} it may have. "
                "Group, or ask for fewer events: a step, a kind, a line.", "position": None}  # fmt: skip
    except duckdb.Error as error:
        message, position = _said(error)
        return {"error": message, "position": _characters(text, None if position is None else position - before)}


def _without_end(statement: str) -> str:
    """The statement without the semicolon that ends it; a comment may follow that."""
    import duckdb

    raw = statement.encode("utf-8", "replace")
    last = max((at for at, kind in duckdb.tokenize(statement) if kind != duckdb.token_type.comment), default=0)
    return raw[:last].decode("utf-8", "ignore") if raw[last : last + 1] == b";" else statement


def _rows(result: Any, request: dict[str, Any]) -> dict[str, Any]:
    columns = [(str(d[0]), str(d[1])) for d in result.description][: request["columns"]]
    number = [kind.split("(")[0] in _NUMBERS for _, kind in columns]
    rows: list[list[Any]] = []
    size, cut, full = 0, 0, False
    while not full and (batch := result.fetchmany(_FETCH)):
        for values in batch:
            row = []
            for value in values[: len(columns)]:
                cell, shortened = _cell(value, request["cell"])
                cut += shortened
                size += len(cell) + 4 if isinstance(cell, str) else 12
                row.append(cell)
            if len(rows) >= request["rows"] or size > request["bytes"]:
                full = True
                break
            rows.append(row)
    for at, is_number in enumerate(number):
        # A browser's numbers are exact up to 2^53; beyond, digits matter more than arithmetic.
        if is_number and any(isinstance(row[at], int) and abs(row[at]) > _EXACT for row in rows):
            number[at] = False
            for row in rows:
                row[at] = None if row[at] is None else str(row[at])
    return {
        "columns": [[name, kind, is_number] for (name, kind), is_number in zip(columns, number, strict=True)],
        "rows": rows,
        "more": full,
        "by_size": full and len(rows) < request["rows"],
        "cut": cut,
        "hidden_columns": max(0, len(result.description) - len(columns)),
    }


def _cell(value: Any, longest: int) -> tuple[Any, int]:
    """A value as JSON has it, and whether it was shortened."""
    if value is None or isinstance(value, bool):
        return value, 0
    if isinstance(value, int):
        return value, 0
    if isinstance(value, decimal.Decimal):
        return (int(value) if value == value.to_integral_value() else float(value)), 0
    if isinstance(value, float):
        return (value, 0) if math.isfinite(value) else (None if math.isnan(value) else str(value), 0)
    if isinstance(value, str):
        text = value
    elif isinstance(value, (bytes, bytearray, memoryview)):
        text = bytes(value[: longest + 1]).hex()
    elif isinstance(value, (list, tuple, dict, set)):
        text = json.dumps(value, default=str, ensure_ascii=False)
    else:
        text = str(value)
    return (text, 0) if len(text) <= longest else (text[: longest - 1] + "…", 1)


def _said(error: BaseException) -> tuple[str, int | None]:
    """DuckDB's message without its type, and the byte that it points at."""
    text = str(error)
    start = text.find("{")
    try:
        said = json.loads(text[start:]) if start >= 0 else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("exception_message"), str):
        return text[:_LONGEST_ERROR] or type(error).__name__, None
    at = said.get("position")
    return said["exception_message"][:_LONGEST_ERROR], int(at) if isinstance(at, str) and at.isdigit() else None


def _characters(text: str, at: int | None) -> int | None:
    """A position in bytes as one in characters of ``text``; None outside it."""
    raw = text.encode("utf-8", "replace")
    if at is None or not 0 <= at <= len(raw):
        return None
    return len(raw[:at].decode("utf-8", "ignore"))


def serve() -> None:
    """Read the request, write the answer."""
    request = json.loads(sys.stdin.buffer.readline())
    answer = main(request)
    sys.stdout.buffer.write(json.dumps(answer, allow_nan=False).encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
