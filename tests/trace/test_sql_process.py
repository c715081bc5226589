"""A user's query in a process of its own: what comes back, and what it cannot do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from neuron_explorer.trace import schema, sql_process
from neuron_explorer.trace.sql_process import Limits, cancel, run
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import TraceWriter

EVENTS = 3_000
SMALL = Limits(seconds=30.0, rows=100)
FOR_EVER = "SELECT count(*) FROM events a, events b, events c, events d"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("sql") / "it's [a] trace.parquet"
    writer = TraceWriter(path, {"schema_version": schema.SCHEMA_VERSION})
    writer.write_rows(
        {
            "kind": ["source"] + ["op"] * EVENTS,
            "name": ["a.py"] + [f"aten::op{i % 3}" for i in range(EVENTS)],
            "start": [-1, *range(EVENTS)],
            "duration": [-1] + [2] * EVENTS,
            "id": [-1, *range(EVENTS)],
            "file": ["a.py"] * (EVENTS + 1),
            "text": ["x = 1\n"] + [None] * EVENTS,
        }
    )
    writer.close({"schema_version": schema.SCHEMA_VERSION})
    with load(path) as opened:
        yield opened


def test_rows_and_columns_come_back(trace):
    answer = run(trace, "SELECT name, count(*) AS n FROM events GROUP BY name ORDER BY name; -- each", limits=SMALL)
    assert answer.state == "done", answer.message
    assert [(c.name, c.number) for c in answer.columns] == [("name", False), ("n", True)]
    assert answer.rows == (["aten::op0", 1000], ["aten::op1", 1000], ["aten::op2", 1000])
    assert not answer.more
    assert answer.seconds > 0


def test_the_same_as_in_the_process_itself(trace):
    query = "SELECT sum(duration), (FROM sources SELECT count(*)), (FROM frames SELECT count(*)) FROM events"
    assert run(trace, query, limits=SMALL).rows[0] == list(trace.sql(query).iloc[0])


def test_rows_beyond_the_limit_are_said(trace):
    answer = run(trace, "SELECT start FROM events ORDER BY start", limits=SMALL)
    assert len(answer.rows) == 100
    assert answer.more
    assert not answer.by_size
    assert not run(trace, "SELECT start FROM events ORDER BY start LIMIT 100", limits=SMALL).more


def test_values_that_json_does_not_have(trace):
    answer = run(
        trace,
        "SELECT 9007199254740993 AS big, 1.5::DECIMAL(9,2) AS d, 'nan'::DOUBLE AS nan, 'inf'::DOUBLE AS inf, "
        "[1, 2] AS l, {'a': 1} AS s, DATE '2020-02-03' AS day, '\\x01'::BLOB AS b, NULL AS nothing, true AS t, "
        '1 AS "a.b", 2 AS a, 3 AS a',
        limits=SMALL,
    )
    assert answer.rows[0] == [
        "9007199254740993", 1.5, None, "inf", "[1, 2]", '{"a": 1}', "2020-02-03", "01", None, True, 1, 2, 3,
    ]  # fmt: skip
    assert [c.number for c in answer.columns][:4] == [False, True, True, True]


def test_times_of_the_day(trace):
    query = "SELECT to_timestamp(0) AS t, [to_timestamp(0)] AS l, INTERVAL 3 DAY AS i, uuid() AS u"
    answer = run(trace, query, limits=SMALL)
    assert answer.state == "done", answer.message
    assert answer.rows[0][0] == "1970-01-01 00:00:00+00:00"


def test_long_values_and_large_answers_are_cut(trace):
    limits = Limits(seconds=30.0, size=10_000, cell=100, columns=2)
    answer = run(trace, "SELECT repeat('x', 5000) AS a, start, 1 AS c FROM events", limits=limits)
    assert answer.more
    assert answer.by_size
    assert answer.cut >= len(answer.rows) > 10
    assert answer.hidden_columns == 1
    assert len(answer.rows[0][0]) == 100


@pytest.mark.parametrize(
    ("statement", "says", "at"),
    [
        ("SELEC name FROM events", "syntax error", "SELEC"),
        ("  -- ö\n SELECT nam FROM events ;", 'column "nam" not found', "nam"),
        ("SELECT 'x'::INT", "Could not convert", "::"),
        ("SELECT * FROM event", "does not exist", "event"),
        ("SELECT * FROM trace", "does not exist", "trace"),
        ("SELECT getenv('HOME')", "does not exist", "getenv"),
    ],
)
def test_errors_are_words_with_a_position(trace, statement, says, at):
    answer = run(trace, statement, limits=SMALL)
    assert answer.state == "error"
    assert says in answer.message
    assert "{" not in answer.message
    assert answer.position is not None
    assert abs(answer.position - statement.index(at)) <= 1


def test_files_are_out_of_reach(trace, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    for statement in (f"FROM read_csv('{secret}')", f"SELECT * FROM '{secret}'", f"FROM glob('{tmp_path}/*')"):
        assert run(trace, statement, limits=SMALL).state == "error"


def test_the_trace_cannot_be_overwritten(trace):
    before = trace.path.read_bytes()
    path = str(trace.path).replace("'", "''")
    for statement in (
        f"COPY (SELECT 1 AS a) TO '{path}' (USE_TMP_FILE false)",
        f"WITH x AS (COPY (SELECT 1 AS a) TO '{path}' (FORMAT parquet, USE_TMP_FILE false)) SELECT * FROM x",
    ):
        answer = run(trace, statement, limits=SMALL)
        assert answer.state == "error"
        assert "COPY" in answer.message or "SELECT" in answer.message
        with pytest.raises(Exception, match=r"COPY|SELECT"):
            trace.sql_arrow(statement)
    assert trace.path.read_bytes() == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock is Linux's")
def test_the_kernel_keeps_files_away_even_from_a_statement_that_passes(trace, tmp_path, monkeypatch):
    """The statement's check and DuckDB's own settings are off here: what is left is the process."""
    if not run(trace, "SELECT 1", limits=SMALL).confined:
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "a.csv").write_text("a\n1\n")
    request = sql_process._request(trace, f"SELECT * FROM read_csv('{tmp_path}/a.csv')", SMALL)
    request.update(setup=["SET errors_as_json=true"], confine=True)
    code = (
        "import sys, json; sys.path[:0] = json.loads(sys.argv[1]); import neuron_explorer.trace.sql_child as c; "
        "c.refusal = lambda *a: None; c.serve()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, json.dumps(sql_process._import_paths())],
        input=json.dumps(request).encode() + b"\n", capture_output=True, check=True,
        env=dict(sql_process._environment()),
    )  # fmt: skip
    assert "ermission" in json.loads(done.stdout)["error"]


GREEDY = (
    "SELECT list(repeat('x', 10000000)) FROM range(1000)",
    "SELECT list(a) FROM generate_series(1, 1000000000000) t(a)",
    "SELECT length(repeat('x', 4000000000))",
    "SELECT repeat('x', 1000000000)",
    "SELECT string_agg(repeat('x', 1000000), '') FROM range(100000)",
)
IN_A_SMALL_PROCESS = """
import json, sys
from neuron_explorer.trace.sql_process import Limits, run
from neuron_explorer.trace.store import load
limits = Limits(seconds=60.0, memory=64 << 20, address_space=256 << 20)
with load(sys.argv[1]) as trace:
    answers = [run(trace, statement, limits=limits) for statement in sys.argv[2:]]
largest = 0
if sys.platform.startswith("linux"):
    import resource
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([[[a.state, a.message] for a in answers], largest]))
"""


def test_memory_is_bounded(trace):
    command = [sys.executable, "-c", IN_A_SMALL_PROCESS, str(trace.path), *GREEDY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers, largest_kib = json.loads(done.stdout)
    for state, message in answers:
        assert state == "error", message
        assert "memory" in message or "too large" in message or "exceed" in message
    assert largest_kib < 600 << 10


def test_time_is_bounded_to_the_moment(trace):
    began = time.monotonic()
    answer = run(trace, FOR_EVER, limits=Limits(seconds=1.0))
    assert answer.state == "timeout"
    assert "1 s" in answer.message
    assert time.monotonic() - began < 5


def test_endless_recursion_ends_with_its_first_rows(trace):
    statement = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
    answer = run(trace, statement, limits=Limits(seconds=5.0, rows=10))
    assert answer.state in ("done", "timeout")
    assert len(answer.rows) in (0, 10)


def test_cancel_ends_it_and_a_third_query_is_told_to_wait(trace):
    answers = {}

    def work(key: str) -> None:
        answers[key] = run(trace, FOR_EVER, limits=Limits(seconds=60.0), key=key)

    threads = [threading.Thread(target=work, args=(key,)) for key in ("a", "b")]
    for thread in threads:
        thread.start()
    _wait(lambda: len(sql_process._running) == 2)
    third = run(trace, "SELECT 1", limits=SMALL)
    assert third.state == "busy"
    assert "running already" in third.message
    assert cancel("a")
    assert cancel("b")
    for thread in threads:
        thread.join(10)
    assert {a.state for a in answers.values()} == {"cancelled"}
    assert not cancel("a")
    assert run(trace, "SELECT 1", limits=SMALL).state == "done"


def _wait(condition) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_statement_that_is_too_long_or_no_text_is_not_run(trace):
    assert "longer than" in run(trace, "SELECT 1 " + " " * 5000).message
    for odd in ("SELECT '\ud800'", "SELECT 1\0"):
        assert "no text" in run(trace, odd).message


def test_a_process_that_cannot_start_is_said(trace, monkeypatch):
    monkeypatch.setattr(sql_process.sys, "executable", "/nowhere/python")
    answer = run(trace, "SELECT 1", limits=SMALL)
    assert answer.state == "error"
    assert "could not be started" in answer.message


def test_an_engine_that_wants_unforeseen_files_still_starts(trace, monkeypatch):
    asked = []
    real = sql_process._run

    def run_once(*args, confine=True):
        asked.append(confine)
        if confine:
            return sql_process.Answer(sql_process._NOT_STARTED, "wants a file")
        return real(*args, confine=False)

    monkeypatch.setattr(sql_process, "_run", run_once)
    answer = run(trace, "SELECT 1 AS a", limits=SMALL)
    assert (answer.state, answer.confined, asked) == ("done", False, [True, False])
    monkeypatch.setattr(sql_process, "_run", lambda *a, **k: sql_process.Answer(sql_process._NOT_STARTED, "wants"))
    assert run(trace, "SELECT 1", limits=SMALL).state == "error"


def test_an_engine_that_does_not_start_is_said(trace, monkeypatch):
    real = sql_process._request
    broken = lambda *a: {**real(*a), "config": {"no_such_setting": "1", "memory_limit": "1GB"}}  # noqa: E731
    monkeypatch.setattr(sql_process, "_request", broken)
    answer = run(trace, "SELECT 1", limits=SMALL)
    assert answer.state == "error"
    assert "DuckDB does not start" in answer.message


def test_no_process_is_left_behind(trace):
    run(trace, FOR_EVER, limits=Limits(seconds=0.5))
    assert sql_process._running == {}
    if sys.platform.startswith("linux"):
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children.read_text().split()]
        assert not [name for name in names if b"sql_child" in name]


def test_the_child_knows_no_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert "AWS_SECRET_ACCESS_KEY" not in sql_process._environment()


def test_the_child_imports_nothing_large(trace):
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import neuron_explorer.trace.sql_child, duckdb; "
        "print([m for m in ('torch', 'dash', 'pandas', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    command = [sys.executable, "-I", "-S", "-c", code, *sql_process._import_paths()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_trace_that_is_gone_is_said(trace, tmp_path):
    path = tmp_path / "gone.parquet"
    os.link(trace.path, path)
    with load(Path(path)) as opened:
        path.unlink()
        answer = run(opened, "SELECT 1 FROM events", limits=SMALL)
    assert answer.state == "error"
    assert str(tmp_path) not in answer.message


CONFINED = """
import json, os, sys
sys.path[:0] = sys.argv[2:]
trace = sys.argv[1]
import resource
import socket
import duckdb
from neuron_explorer.trace import confine
confine.limit_time(30, 30)
confine.limit_writing()
confine.limit_memory(256 << 20)
confined = confine.limit_files([trace, "/proc/self/cgroup", "/proc/meminfo", "/sys/fs/cgroup"])
connection = duckdb.connect(config={"threads": "2"})

def can(action):
    try:
        action()
        return True
    except (OSError, MemoryError):
        return False

print(json.dumps({
    "confined": confined,
    "read the trace": can(lambda: open(trace, "rb").read(4)),
    "write the trace": can(lambda: open(trace, "r+b")),
    "read another file": can(lambda: open("/etc/passwd")),
    "read the parent's environment": can(lambda: open(f"/proc/{os.getppid()}/environ", "rb").read()),
    "make a file": can(lambda: open(trace + ".new", "w")),
    "connect": can(lambda: socket.create_connection(("127.0.0.1", int(os.environ["LISTENING"])), 5)),
    "allocate 1 GB": can(lambda: bytes(1 << 30)),
}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these limits are Linux's")
def test_what_a_confined_process_can_do(trace):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        environment = {**sql_process._environment(), "LISTENING": str(listening.getsockname()[1])}
        command = [sys.executable, "-I", "-S", "-c", CONFINED, str(trace.path), *sql_process._import_paths()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    can = json.loads(done.stdout)
    assert not can.pop("allocate 1 GB")
    if not can.pop("confined"):
        pytest.skip("this kernel has no Landlock")
    can.pop("connect")  # refused from Linux 6.7 on
    assert can.pop("read the trace")
    assert set(can.values()) == {False}, can
