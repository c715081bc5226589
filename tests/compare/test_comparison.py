"""Comparisons whose answer can be computed on paper, and what must hold for any two traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace, metadata

import neuron_explorer
from neuron_explorer.analysis.render_answer import render
from neuron_explorer.comparing.comparison import comparison
from neuron_explorer.comparing.report import TABLES, answer_of
from neuron_explorer.comparing.rows import Node
from neuron_explorer.comparing.run import run_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
SOURCE = "def f(x):\n    y = mm(x)\n    z = relu(y)\n    return z\n"
STEPS = [(0, 1000, "warmup"), *((1000 * i, 1000, "steady") for i in range(1, 7))]


def op(start, duration, line=2, name="aten::mm", phase="forward", **more):
    return event(name, start, duration, file="m.py", line=line, function="f", phase=phase, outermost_on_line=True,
                 module="net", **more)  # fmt: skip


def run(make, source=SOURCE, name="run", steps=STEPS, **meta):
    events = [e for i in range(1, 7) for e in make(1000 * i)]
    return run_of(memory_trace(events, steps, sources={"m.py": source}, **meta), name)


def usual(start):
    return [op(start + 10, 100), op(start + 200, 50, 3, "aten::relu"), op(start + 300, 80, 3, phase="backward")]


def slower(start):
    return [op(start + 10, 180), op(start + 200, 50, 3, "aten::relu"), op(start + 300, 80, 3, phase="backward")]


def test_the_change_is_where_it_was_made():
    found = comparison([run(usual)], [run(slower)])
    (first, *rest) = found.lines
    assert (first.line_after, first.how, first.change_ns) == (("m.py", 2, "f"), "same", 80.0)
    assert all(row.change_ns == 0 for row in rest)
    assert found.ops[0].key == ("aten::mm",) and found.ops[0].change_ns == 80.0
    assert found.modules[0].change_ns == 80.0
    forward = next(n for n in found.tree.children if n.label == "forward")
    assert forward.change_ns == 80.0 and forward.children[0].line == ("m.py", 2, "f")
    assert found.tree.change_ns == 0, "the step is as long: Python between operators took less"
    assert not found.counts.found


def test_lines_are_matched_through_edits_and_what_has_no_partner_is_summed():
    edited = "import os\n\ndef f(x):\n    y = mm(x, 2)\n    z = relu(y)\n    w = gelu(z)\n    return z\n"
    moved = run(
        lambda s: [op(s + 10, 120, 4), op(s + 200, 50, 5, "aten::relu"), op(s + 300, 30, 6, "aten::gelu")], edited
    )
    found = comparison([run(usual)], [moved])
    how = {(row.line_before or ("",))[1:2] + (row.line_after or ("",))[1:2]: row.how for row in found.lines}
    assert how == {(2, 4): "edited", (3, 5): "same", (6,): "added"}
    assert found.unmatched_ns == (0.0, 30.0)


def test_without_sources_lines_of_one_number_are_one_line():
    def bare(make):
        return run_of(memory_trace([e for i in range(1, 7) for e in make(1000 * i)], STEPS))

    one, two = bare(usual), bare(slower)
    assert {row.how for row in comparison([one], [two]).lines} == {"same"}


def test_runs_that_repeat_get_a_verdict():
    one = [run(lambda s, k=k: [op(s + 10, 100_000 + 100 * k)], steps=_long()) for k in range(8)]
    two = [run(lambda s, k=k: [op(s + 10, 150_000 + 100 * k)], steps=_long(1.4)) for k in range(8)]
    found = comparison(one, two, interleaved=True)
    assert found.step is not None and found.step.verdict == "regression"
    assert comparison(one, two).step.verdict == "suspicious", "the sides did not take turns"
    assert comparison(one, one, interleaved=True).step.verdict == "ok"
    assert comparison(one[:1], two[:1]).step is None
    answer = answer_of(found)
    assert "8 runs (6 steady steps each) against 8 runs" in answer.scope and "slower" in answer.headline
    for table in answer.tables:
        for record in table.records() if table.kind.name in ("lines", "ops", "shapes", "modules") else ():
            assert record["verdict"] == "slower" and record["ratio_low"] > 1.3
    tree = next(t for t in answer.tables if t.kind.name == "tree").records()
    assert [r["verdict"] for r in tree if r["level"] == 0] == ["slower"]
    few = answer_of(comparison(one[:2], two[:2]))
    assert "not enough data" in few.headline and "interval" not in few.headline


def _long(scale=1.0):
    return [(0, 1000, "warmup"), *((1000 * i, int(1000 * scale * 300), "steady") for i in range(1, 7))]


def test_what_differs_around_the_program_comes_first_and_makes_times_suspicious():
    other = metadata()["versions"] | {"torch": "2.14.1"}
    found = comparison([run(usual)], [run(usual, versions=other)])
    assert found.environment == (("torch", "2.13.0", "2.14.1"),)
    answer = answer_of(found)
    assert answer.tables[0].records() == [{"name": "torch", "before": "2.13.0", "after": "2.14.1"}]


def test_a_side_without_runs_is_refused():
    with pytest.raises(ValueError, match="at least one run"):
        comparison([], [run(usual)])


def adds_up(node: Node) -> None:
    if node.children:
        assert sum(n.before_ns for n in node.children) == pytest.approx(node.before_ns, abs=1)
        assert sum(n.after_ns for n in node.children) == pytest.approx(node.after_ns, abs=1)
    for child in node.children:
        adds_up(child)


phases = st.sampled_from(["forward", "backward", "optimizer"])
calls = st.lists(st.tuples(st.integers(2, 4), st.integers(1, 120), phases), max_size=6)


@settings(max_examples=25, deadline=None)
@given(calls, calls)
def test_parts_add_up_to_the_change_and_the_other_way_round_is_its_opposite(one, two):
    def make(given):
        def at(start):
            return [op(start + 10 + 150 * i, d, line, phase=phase) for i, (line, d, phase) in enumerate(given)]

        return run(at)

    before, after = make(one), make(two)
    found, back = comparison([before], [after]), comparison([after], [before])
    adds_up(found.tree)
    assert sum(r.change_ns for r in found.lines) == pytest.approx(sum(r.change_ns for r in found.ops))
    assert sum(r.change_ns for r in found.lines) == pytest.approx(-sum(r.change_ns for r in back.lines))
    adds_up(comparison([before, after, before], [after, before]).tree)
    same = comparison([before], [before])
    assert all(r.change_ns == 0 for r in (*same.lines, *same.ops, *same.shapes, *same.modules))
    assert not same.counts.found


def test_samples_compare_in_every_format():
    found = neuron_explorer.compare(SAMPLES / "optimizer_before.parquet", SAMPLES / "optimizer_after.parquet")
    adds_up(found.tree)
    optimizer = next(r for r in found.lines if r.key[2] == "optimizer.step()")
    assert (optimizer.before.launches, optimizer.after.launches) == (500, 2)
    answer = answer_of(found)
    assert tuple(t.kind for t in answer.tables) == TABLES
    document = json.loads(render(answer, "json"))
    assert set(document["tables"]) == {t.name for t in TABLES}
    for form in ("text", "markdown", "csv"):
        assert "fused_optimizer.py:39" in render(answer, form).replace("\\", "")


SHARED = Path(__file__).parents[3] / "shared" / "traces"


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "kineto_resnet50_nw4.pt.trace.json.gz").exists(), reason="no public traces here")
def test_imported_traces_of_a_public_pair_show_what_the_workers_save():
    zero, four = (SHARED / f"kineto_resnet50_nw{n}.pt.trace.json.gz" for n in (0, 4))
    found = neuron_explorer.compare(zero, four)
    adds_up(found.tree)
    assert not found.environment and found.tree.change_ns < -30e6
    parts = sorted(found.tree.children, key=lambda n: n.change_ns)
    assert parts[0].label == "data wait" and parts[0].change_ns < -60e6
    line = min(found.lines, key=lambda row: row.change_ns)
    assert line.how == "same" and line.line_after[0].endswith("resnet50_profiler_api.py")
