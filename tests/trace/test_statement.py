"""Which SQL may run: looked at by DuckDB's parser, nothing is run."""

from __future__ import annotations

import duckdb
import pytest

from neuron_explorer.trace.statement import hides_nothing, refusal

HARMLESS = (
    "SELECT 1",
    "SELECT name, sum(self) FROM events GROUP BY name ORDER BY 2 DESC; -- the costly ones",
    "FROM events",
    "VALUES (1)",
    "DESCRIBE events",
    "SUMMARIZE SELECT start FROM events",
    "WITH a AS (SELECT 1) SELECT * FROM a UNION SELECT 2",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
    "SELECT * FROM range(3), generate_series(1, 2) AS g, unnest([1]) AS u",
    "SELECT j.value FROM events, json_each(detail) AS j WHERE kind = 'copy'",
    "FROM (PIVOT events ON phase IN ('forward') USING sum(duration))",
    "SELECT 'DROP TABLE x; COPY x TO y' AS text, repeat('x', 3)",
)

REFUSED = (
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP VIEW events",
    "DROP VIEW events",
    "CREATE TABLE t (a INT)",
    "CREATE VIEW events AS SELECT 1",
    "INSERT INTO t VALUES (1)",
    "UPDATE t SET a = 1",
    "DELETE FROM events",
    "COPY (SELECT 1) TO 'x.csv'",
    "COPY events TO 'x.parquet'",
    "EXPORT DATABASE 'x'",
    "IMPORT DATABASE 'x'",
    "ATTACH 'x.db'",
    "DETACH memory",
    "USE memory",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '100GB'",
    "RESET threads",
    "SET VARIABLE a = 1",
    "PRAGMA version",
    "PRAGMA table_info('events')",
    "CALL duckdb_settings()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT events ON phase USING sum(duration)",
    "WITH x AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT * FROM x",
    "WITH x AS (DELETE FROM events RETURNING 1) SELECT * FROM x",
    "WITH x AS (UPDATE t SET a = 1 RETURNING 1) SELECT * FROM x",
    "WITH x AS (COPY (SELECT 1) TO 'trace.parquet' (USE_TMP_FILE false)) SELECT * FROM x",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/etc/passwd')",
    "FROM Read_Blob('/etc/passwd')",
    "FROM system.main.read_text('/etc/passwd')",
    "FROM read_json('/etc/passwd')",
    "FROM read_parquet('/etc/*')",
    "FROM parquet_metadata('trace.parquet')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM glob('/etc/*')",
    "SELECT (SELECT count(*) FROM glob('/etc/*'))",
    "SELECT 1 WHERE EXISTS (FROM glob('/etc/*'))",
    "FROM query('SELECT 1')",
    "FROM query('CO' || 'PY x TO y')",
    "FROM query_table('events')",
    "FROM json_execute_serialized_sql('{}')",
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM enable_logging()",
    "FROM add_grammar_extension('x')",
    "FROM python_map_function(1)",
    "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "FROM seq_scan(1)",
)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


@pytest.mark.parametrize("statement", HARMLESS)
def test_a_select_passes(connection, statement):
    assert refusal(connection, statement) is None


@pytest.mark.parametrize("statement", REFUSED)
def test_anything_else_is_refused_with_a_reason(connection, statement):
    try:
        refused = refusal(connection, statement)
    except duckdb.Error:  # a release that does not know the form
        return
    assert refused is not None
    assert refused.reason.endswith(".") or "USING" in refused.reason


def test_a_refusal_points_at_the_function(connection):
    statement = "SELECT * FROM events, glob('/etc/*')"
    refused = refusal(connection, statement)
    assert refused is not None
    assert refused.position == statement.index("glob")


def test_words_that_could_hide_a_statement_are_looked_into():
    assert hides_nothing("SELECT name FROM events")
    for statement in ("WITH x AS (cOpY a TO 'b') SELECT 1", "FROM query('x')", "WITH x AS (DELETE FROM a) SELECT 1"):
        assert not hides_nothing(statement)


@pytest.mark.parametrize("statement", ["SELECT " + "NOT " * 900 + "1", "SELECT " + "[" * 900 + "1" + "]" * 900])
def test_deep_nesting_is_refused(connection, statement):
    refused = refusal(connection, statement)
    assert refused is None or "nested" in refused.reason
