"""Which SQL may run on a trace: one SELECT that only reads the trace's views.

The type that DuckDB gives a statement is not enough. ``WITH x AS (COPY … TO 'trace.parquet')
SELECT * FROM x`` is a SELECT to it, and a path that may be read may also be written; functions
such as ``query()`` run SQL that stands in a string. So the tree of DuckDB's own parser is walked,
and whatever is not known to be harmless is refused. No heavy imports: a process that runs one
query starts with this module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

QUERY_NODES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Parts of a statement that read."""

TABLE_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "histogram",
     "histogram_values", "summary"}
)  # fmt: skip
"""Functions that make a table out of values. Those that read files or settings are not among them."""

# Words without which no statement of DuckDB's can hide another one.
_HIDES: Final = re.compile(r"copy|insert|update|delete|merge|truncate|query|sql", re.IGNORECASE)


@dataclass(frozen=True)
class Refusal:
    """Why a statement does not run. ``position``: byte of the text that is meant; None for all of it."""

    reason: str
    position: int | None = None


def refusal(connection: duckdb.DuckDBPyConnection, statement: str) -> Refusal | None:
    """Why ``statement`` is not one harmless SELECT; None when it is. Raises ``duckdb.Error`` for a syntax error."""
    import duckdb

    statements = connection.extract_statements(statement)
    if not statements:
        return Refusal("There is no statement.")
    if len(statements) > 1:
        return Refusal("Only a single SELECT can be run on a trace; here are several statements.")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        return Refusal(_not_select(kind.name))
    return _tree_refusal(connection, statements[0].query)


def hides_nothing(statement: str) -> bool:
    """Whether the words alone show that a SELECT holds no other statement, without looking at its tree."""
    return _HIDES.search(statement) is None


def _not_select(kind: str) -> str:
    if kind == "MULTI":
        return "PIVOT needs the values it makes columns of: PIVOT … ON phase IN ('forward', 'backward') USING …"
    return f"Only a single SELECT can be run on a trace, not {kind.replace('_', ' ')}."


def _tree_refusal(connection: duckdb.DuckDBPyConnection, statement: str) -> Refusal | None:
    # All rows, for a result that is not read to its end keeps the connection.
    rows = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [statement]).fetchall()
    try:
        tree = json.loads(rows[0][0])
    except RecursionError:
        return Refusal("The query is nested too deeply.")
    if tree.get("error"):
        return Refusal(f"Only a plain SELECT can be run on a trace: {tree.get('error_message', 'unknown form')}.")
    for node in _nodes(tree):
        kind = node.get("type")
        if not isinstance(kind, str):
            continue
        if kind.endswith("_NODE") and kind not in QUERY_NODES:
            what = kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " ")
            return Refusal(f"Only a single SELECT can be run on a trace, not {what}.")
        if kind == "TABLE_FUNCTION":
            function = node.get("function")
            name = function.get("function_name") if isinstance(function, dict) else None
            if not isinstance(name, str) or name.lower() not in TABLE_FUNCTIONS:
                return Refusal(
                    f"The table function {name or '?'} is not allowed: a query reads events, frames and sources only.",
                    _position(node),
                )
    return None


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            pending.extend(reversed(one))


def _position(node: dict[str, Any]) -> int | None:
    at = node.get("query_location")
    return at if isinstance(at, int) and 0 <= at < 1 << 32 else None
