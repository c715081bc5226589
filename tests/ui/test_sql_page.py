"""The SQL page without a browser: data, the table of a result, errors in words, the callbacks."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.trace.sql_process import Answer, Column
from neuron_explorer.trace.store import load
from neuron_explorer.ui.components.sql_help import with_code
from neuron_explorer.ui.components.sql_result import columns_and_rows
from neuron_explorer.ui.pages import sql
from neuron_explorer.ui.registry import Registry


@pytest.fixture(scope="module")
def usual(traces):
    with load(traces["usual"]) as trace:
        yield trace


def answer(names, rows, numbers=(), **more):
    columns = tuple(Column(n, "BIGINT" if n in numbers else "VARCHAR", n in numbers) for n in names)
    return Answer("done", columns=columns, rows=tuple(rows), **more)


def text_of(component):
    return json.dumps(component, default=lambda c: c.to_plotly_json())


def test_the_address_fills_the_editor_and_runs_nothing(usual, monkeypatch):
    monkeypatch.setattr(sql, "run", lambda *a, **k: pytest.fail("a link ran a query"))
    data = sql.data(usual, {"sql": "DROP VIEW events"})
    assert data.sql == "DROP VIEW events"
    assert "DROP VIEW events" in text_of(sql.layout("abc", usual, {"sql": "DROP VIEW events"}))
    assert len(sql.data(usual, {"sql": "x" * 9999}).sql) == 4096


def test_ids_lines_and_steps_lead_somewhere():
    a = answer(
        ["id", "name", "file", "line", "step"],
        [[7, "aten::mm", "a b.py", 3, 2], [0, "x", None, -1, -1]],
        numbers=("id", "line", "step"),
    )
    columns, rows = columns_and_rows(a, "abc")
    assert rows[0]["h0"] == "/t/abc/timeline?event=7"
    assert rows[0]["h3"] == "/t/abc/source?file=a+b.py&line=3"
    assert rows[0]["h4"] == "/t/abc/timeline?step=2"
    assert rows[1]["h0"] == "/t/abc/timeline?event=0"
    assert not {"h3", "h4"} & set(rows[1])
    assert [c["headerName"] for c in columns] == ["id", "name", "file", "line", "step"]


def test_the_id_of_a_frame_is_no_event():
    _, rows = columns_and_rows(answer(["id", "parent", "file", "line", "function"], [[7, 1, "a.py", 3, "f"]]), "abc")
    assert "h0" not in rows[0]


def test_columns_may_have_any_name_and_values_are_text():
    a = answer(["__proto__", "a.b", "a.b", ""], [["<b>\u202e", "x\ny", None, True]])
    columns, rows = columns_and_rows(a, "abc")
    assert [c["field"] for c in columns] == ["c0", "c1", "c2", "c3"]
    assert rows[0]["c0"] == "<b>\\u202e"
    assert "\n" not in rows[0]["c1"]


def test_numbers_share_the_digits_of_their_column():
    columns, _ = columns_and_rows(answer(["ms", "n"], [[12.38, 1], [14.597, 1234567]], numbers=("ms", "n")), "abc")
    assert columns[0]["valueFormatter"]["function"] == "nxValue(params.value, true, 3)"
    assert columns[1]["valueFormatter"]["function"] == "nxValue(params.value, true, 0)"


def test_what_is_not_shown_is_said():
    said = text_of(sql.result_view(answer(["a"], [["x"]], more=True, cut=2, hidden_columns=3), "SELECT", "abc"))
    assert "The first 1 row" in said
    assert "more rows than the 10,000" in said
    assert "2 long values cut" in said
    assert "3 further columns" in said
    assert "No row fits" in text_of(sql.result_view(answer(["a"], []), "SELECT", "abc"))


def test_an_error_points_at_its_place():
    query = "SELECT name,\n  nam FROM events"
    wrong = Answer("error", 'column "nam" not found\nCandidates: "name"', position=query.index("nam FROM"))
    said = text_of(sql.result_view(wrong, query, "abc"))
    assert "line 2, column 3" in said
    assert "  nam FROM events" in said
    assert "Candidates" in said
    assert sql.line_and_column("", 0) == (1, 1)


@pytest.mark.parametrize("state", ["timeout", "cancelled", "busy", "error"])
def test_every_way_to_fail_is_drawn(state):
    assert "in words" in text_of(sql.result_view(Answer(state, "in words"), "SELECT", "abc"))


@pytest.mark.parametrize("odd", [None, 3, [], {}, {"id": 1, "sql": 2}, {"id": "x" * 1000, "sql": None}])
def test_odd_requests_are_empty(odd):
    assert sql._asked(odd) == ("", "")


def test_code_in_a_meaning():
    assert [getattr(p, "children", p) for p in with_code("a `b` c")] == ["a ", "b", " c"]


@pytest.fixture(scope="module")
def ask(app, traces):
    """The callback that runs a query, asked as the browser asks it."""
    base = "http://127.0.0.1:8050"
    client = app.server.test_client()
    client.get("/?token=a-token-for-tests", base_url=base)

    def post(request, name="usual"):
        trace_id = Registry([traces[name]]).entries()[0].id
        body = {
            "output": "..sql-result.children...sql-done.data..", "changedPropIds": ["sql-request.data"],
            "outputs": [{"id": "sql-result", "property": "children"}, {"id": "sql-done", "property": "data"}],
            "inputs": [{"id": "sql-request", "property": "data", "value": request}],
            "state": [{"id": "url", "property": "pathname", "value": f"/t/{trace_id}/sql"}],
        }  # fmt: skip
        reply = client.post("/_dash-update-component", base_url=base, json=body)
        assert reply.status_code == 200
        return reply.get_json()["response"]

    return post


def test_the_callback_runs_a_query(ask):
    said = ask({"id": "k", "sql": "SELECT count(*) AS n FROM events WHERE kind = 'step'"})
    assert said["sql-done"]["data"] == {"id": "k", "state": "done", "position": None, "rows": 1}
    assert '"c0": 12' in json.dumps(said["sql-result"])


def test_the_callback_says_what_is_wrong(ask):
    said = ask({"id": "k", "sql": "SELECT * FROM event"})
    assert said["sql-done"]["data"]["position"] == len("SELECT * FROM ")
    assert ask(None)["sql-done"]["data"]["state"] == "error"
    for name in ("broken", "stepless"):  # the second is not served by this app
        assert ask({"id": "k", "sql": "SELECT 1"}, name)["sql-done"]["data"]["state"] == "error"


def test_the_page_loads_no_engine():
    import subprocess
    import sys

    code = (
        "import sys, neuron_explorer.ui.pages.sql, neuron_explorer.ui.pages.source; "
        "print([m for m in ('pyarrow', 'duckdb', 'pandas', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
