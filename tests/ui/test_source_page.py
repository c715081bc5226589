"""The page of sources without a browser: files, lines, heat, the panel, hostile text."""

from __future__ import annotations

import json

import pytest

from neuron_explorer.analysis.source_files import Marks, SourceFile
from neuron_explorer.trace.store import load
from neuron_explorer.ui.components import source_grid
from neuron_explorer.ui.pages import source


@pytest.fixture(scope="module")
def usual(traces):
    with load(traces["usual"]) as trace:
        yield trace


@pytest.fixture(scope="module")
def hostile(traces):
    with load(traces["hostile"]) as trace:
        yield trace


def text_of(component):
    return json.dumps(component, default=lambda c: c.to_plotly_json())


def grid_of(data):
    lines, _, _ = source_grid.block_of(data.shown, data.line)
    return source_grid.columns_and_rows(
        lines, data.metric, "abc", data.shown.file, data.selection.steps
    )  # fmt: skip


def test_the_costliest_file_opens_first(usual):
    data = source.data(usual, {})
    assert [row.file for row in data.files] == ["model.py", "train.py"]
    assert data.shown.file == "model.py"
    assert data.shown.lines[1] == "y = a @ b  # product"
    assert data.metric == "self"


def test_lines_carry_their_costs_a_step(usual):
    columns, rows = grid_of(source.data(usual, {"file": "model.py"}))
    assert [c["field"] for c in columns] == ["n", "self", "code", "total", "launches"]
    assert columns[1]["headerName"] == "self a step, µs"
    # Four layers a step: aten::linear of 100 µs with aten::mm of 90 µs in it.
    assert rows[1] == {
        "n": "2", "code": "y = a @ b  # product",
        "self": 400.0, "total": 400.0, "launches": 4.0, "heat": 1.0,
    }  # fmt: skip
    assert rows[0] == {"n": "1", "code": "import torch"}
    assert columns[0]["cellRendererParams"] == {"base": "/t/abc/source?file=model.py"}
    assert rows[2]["heat"] == 0.5


def test_the_heat_shows_the_chosen_figure(usual):
    columns, rows = grid_of(source.data(usual, {"file": "train.py", "metric": "launches"}))
    assert columns[1]["field"] == "launches"
    assert [r["n"] for r in rows if r.get("heat") == 1.0] == ["5"]
    assert source.data(usual, {"metric": "nonsense"}).metric == "self"


def test_the_panel_of_a_line(usual):
    said = text_of(source.panel("abc", usual, {"file": "model.py", "line": "2"}))
    assert "aten::mm" in said
    assert "/t/abc/timeline?file=model.py&line=2" in said
    assert "/t/abc/bottlenecks?by=line&file=model.py&line=2" in said
    assert source.panel("abc", usual, {"file": "model.py"}) == []
    for odd in ("x", "-1", "²", "9" * 20):
        assert source.panel("abc", usual, {"file": "model.py", "line": odd}) == []
    assert "No operator ran" in text_of(source.panel("abc", usual, {"file": "model.py", "line": "99"}))


def test_the_panel_has_the_figure_of_the_line():
    """Also where not every operator is listed."""
    from neuron_explorer.analysis.bottlenecks import Row, Table
    from neuron_explorer.analysis.selection import Selection, TimeKind
    from neuron_explorer.ui.components.line_panel import ops_table

    def row(n):
        return Row(str(n), 1000, 1000, 1, 1, 1.0, 0.1, None, None, None, name=f"op{n}")

    selection = Selection("all", "TRUE", 0, 90_000, "run time", "", None, 0, (0,), (), TimeKind("host time", "", True))
    table = Table("op_on_line", tuple(row(n) for n in range(50)), 60, 55_000, 5_000, selection)
    said = text_of(ops_table(table))
    assert "55.0 \\u00b5s, in 60 operators" in said
    assert "40 cheaper operators with 35.0 \\u00b5s not listed" in said


def test_the_page_is_drawn_in_every_state(usual, hostile, traces):
    for search in ({}, {"file": "train.py", "line": "5", "metric": "total", "period": "all"}, {"block": "9"}):
        assert "source-grid" in text_of(source.layout("abc", usual, search))
    with load(traces["stepless"]) as trace:
        said = text_of(source.layout("abc", trace, {}))
        assert "a.py" in said
        assert "only the user's own files" in said
    with load(traces["empty"]) as trace:
        assert 'source=\\"all\\"' in text_of(source.layout("abc", trace, {}))


def test_no_file_is_read(usual):
    data = source.data(usual, {"file": "/etc/passwd", "line": "1"})
    assert data.shown.lines is None
    said = text_of(source.layout("abc", usual, {"file": "/etc/passwd", "line": "1"}))
    assert "root:" not in said
    assert "No event of this trace" in said


def test_text_from_a_trace_is_text(hostile):
    data = source.data(hostile, {})
    columns, rows = grid_of(data)
    assert rows[1]["code"].endswith("</script><img src=x onerror='window.hacked=1'>")
    assert columns[0]["cellRendererParams"]["base"].startswith("/t/abc/source?file=%3Ca+href")


def test_odd_characters_and_long_lines():
    shown = SourceFile("a.py", ("\tx\x1b[31m\u202e", "y" * 5000, "a\fb"), "")
    lines, _, _ = source_grid.block_of(shown, 0)
    _, rows = source_grid.columns_and_rows(lines, "self", "abc", "a.py", 0)
    assert rows[0]["code"] == "    x\\x1b[31m\\u202e"
    assert len(rows[1]["code"]) == 1000
    assert rows[2]["code"] == "ab"


def test_a_huge_file_is_sent_in_blocks():
    shown = SourceFile("a.py", tuple(f"x{n}" for n in range(1, 50_001)), "")
    for line, block, first, number in ((0, 0, 1, 20_000), (20_001, 0, 20_001, 20_000), (1, 45_000, 40_001, 10_000),
                                       (999_999, 0, 40_001, 10_000)):  # fmt: skip
        lines, start, total = source_grid.block_of(shown, line, block)
        assert (start, lines[0].number, len(lines), total) == (first, first, number, 50_000)
        assert lines[0].text == f"x{first}"


def test_without_a_text_the_lines_that_cost_are_listed(usual):
    rows = source.data(usual, {"file": "model.py"}).shown.rows
    shown = SourceFile("lib.py", None, "why", rows, {40: Marks(fallbacks=2, copies=1, bytes=2_500_000)})
    lines, _, _ = source_grid.block_of(shown, 0)
    assert [x.number for x in lines] == [2, 3, 40]
    columns, rows = source_grid.columns_and_rows(lines, "bytes", "abc", "lib.py", 0)
    assert columns[1]["headerName"] == "MB"
    assert rows[2]["bytes"] == 2.5
    assert rows[2]["marks"] == "2 fallbacks, 1 copy"
    assert source_grid.hottest(lines, "self", 1) == [2]


def test_marks_in_words():
    said = dict(source_grid.marks_text(Marks(fallbacks=1, waits=2, copies=3, bytes=10, recompiles=4, graph_breaks=5)))
    assert said == {
        "CPU fallbacks": "1", "values read back": "2", "copies": "3", "bytes": "10 B", "recompiles in the run": "4",
        "graph breaks in the run": "5",
    }  # fmt: skip
    assert source_grid.marks_text(Marks()) == []


def test_what_stands_out_leads_to_its_events(tmp_path):
    import sys

    synthetic = sys.modules["synthetic"]
    at = {"file": "a.py", "line": 2}
    events = [synthetic.event("aten::mm", 0, 5, **at), synthetic.event("f", 9, 0, kind="recompile", **at)]
    path = synthetic.write(tmp_path / "t.parquet", synthetic.rows_of(events), synthetic.metadata())
    with load(path) as trace:
        said = text_of(source.panel("abc", trace, {"file": "a.py", "line": "2"}))
    assert "recompiles in the run" in said
    assert "/t/abc/timeline?file=a.py&line=2&kind=recompile" in said
