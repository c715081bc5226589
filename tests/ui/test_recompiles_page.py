"""The page of recompilations: its data, its links, what it says where there is nothing."""

from __future__ import annotations

import json

import pytest
import synthetic

from neuron_explorer.analysis.compile_marks import MOST_MARKS, compile_marks
from neuron_explorer.trace.store import load
from neuron_explorer.ui.pages import recompiles

from .page_tree import flat, hrefs

EVIL = "<img src=x onerror=alert(1)>"


def recompilation(number: int, start: int, expected: str, actual: str, name: str = "forward"):
    """A recompile row with its compile row inside."""
    at = {"file": "model.py", "line": 2, "function": name, "compile_id": f"0/{number}"}
    why = {
        "cause": "size", "guard": f"tensor 'x' size mismatch at index 0. expected {expected}, actual {actual}",
        "source": "x.shape[0]", "expected": expected, "actual": actual, "dimension": 0, "caller_file": "train.py",
        "caller_line": 4, "caller_function": "step", "nth": number + 1, "limit": 8, "backend": "neuron",
        "reasons": [{"entry": f"0/{i}", "cause": "size", "guard": f"entry {i}"} for i in range(2)],
    }  # fmt: skip
    made = {"backend": "neuron", "outcome": "ok", "nth": number + 1, "limit": 8, "trigger": "forward", "graph_ops": 3}
    inner = synthetic.event(name, start, 5_000_000, kind="compile", detail=json.dumps(made), **at)
    return synthetic.event(name, start, 5_000_000, inner, kind="recompile", detail=json.dumps(why), **at)


def first(start: int, name: str = "forward", duration: int = 5_000_000):
    made = {"backend": "neuron", "outcome": "ok", "nth": 1, "limit": 8, "trigger": "forward", "graph_ops": 3}
    return synthetic.event(
        name, start, duration, kind="compile", file="model.py", line=2, function=name, compile_id="0/0",
        detail=json.dumps(made),
    )  # fmt: skip


def written(folder, events, **changes):
    seen = {"compile": {"observed": True, "reason": ""}}
    meta = synthetic.metadata(
        duration_ns=100_000_000, capabilities=synthetic.metadata()["capabilities"] | seen, **changes
    )
    sources = {"model.py": "class M:\n    def forward(self, x):\n        return x\n", "train.py": "a\nb\nc\nstep(x)\n"}
    return synthetic.write(folder / "trace.parquet", synthetic.rows_of(events, [], sources), meta)


@pytest.fixture(scope="module")
def recompiled(tmp_path_factory):
    """One compilation, three recompilations of it for sizes, one graph break elsewhere."""
    events = [first(0), *(recompilation(n, n * 10_000_000, str(n), str(n + 1)) for n in (1, 2, 3))]
    why = {"reason": EVIL, "type": "Data-dependent branch", "explanation": EVIL, "hints": [EVIL], "count": 2}
    events.append(
        synthetic.event("data-dependent", 50_000_000, 0, kind="graph_break", file="train.py", line=3, function="f",
                        detail=json.dumps(why))
    )  # fmt: skip
    return written(tmp_path_factory.mktemp("recompiles"), events)


def test_the_worst_alert_is_open_and_says_what_changed(recompiled):
    with load(recompiled) as trace:
        d = recompiles.data(trace, {})
        text = flat(recompiles.layout("id", trace, {}))
    assert d.current is d.shown[0] and d.current.cause == "size"
    assert (d.current.count, d.current.nth, d.current.limit) == (3, 4, 8)
    for said in ("compiled for x.shape[0]", "called with x.shape[0]", "4 of 8", "def forward(self, x):", "step(x)"):
        assert said in text, said
    assert "2 \\u2192 3" in text or "2 → 3" in text, "each time with its change"


def test_the_query_chooses_group_and_alert(recompiled):
    with load(recompiled) as trace:
        everything = recompiles.data(trace, {})
        breaks = recompiles.data(trace, {"kind": "graph_break"})
        named = recompiles.data(trace, {"alert": everything.shown[-1].id})
        unknown = recompiles.data(trace, {"alert": EVIL, "kind": EVIL})
    assert {a.kind for a in everything.shown} == {"recompile", "graph_break"}
    assert [a.kind for a in breaks.shown] == ["graph_break"]
    assert named.current == everything.shown[-1]
    assert unknown.current == everything.shown[0]


def test_links_lead_into_the_app_and_to_rows_that_exist(recompiled):
    with load(recompiled) as trace:
        layout = json.loads(flat(recompiles.layout("id", trace, {})))
        ids = {row["id"] for row in trace.sql_arrow("SELECT id FROM events").to_pylist()}
    found = list(hrefs(layout))
    assert found and all(href.startswith("/t/id/") for href in found)
    events = [int(h.rpartition("event=")[2]) for h in found if "event=" in h]
    assert len(events) >= 4 and set(events) <= ids


def test_text_of_the_trace_is_never_markup(recompiled):
    with load(recompiled) as trace:
        layout = json.loads(flat(recompiles.layout("id", trace, {"kind": "graph_break"})))
    text = json.dumps(layout)
    assert EVIL in text
    assert "dangerously" not in text and '"type": "Markdown"' not in text


def test_the_strip_counts_a_compilation_once_and_keeps_what_it_leaves_out(tmp_path):
    backward = {"backend": "neuron", "outcome": "ok", "nth": 1, "limit": -1, "trigger": "backward", "graph_ops": 1}
    events = [
        first(0),
        synthetic.event("forward", 6_000_000, 1_000, kind="compile", compile_id="0/0", detail=json.dumps(backward)),
        recompilation(1, 10_000_000, "1", "2"),
    ]
    with load(written(tmp_path, events)) as trace:
        strip = compile_marks(trace)
    assert strip.totals == {"first": 1, "again": 1, "failed": 0, "break": 0, "eager": 0}
    assert [(m.kind, m.start, m.duration) for m in strip.marks] == [
        ("first", 0, 5_000_000), ("first", 6_000_000, 1_000), ("again", 10_000_000, 5_000_000),
    ]  # fmt: skip
    assert strip.left_out == 0


def test_a_strip_of_many_compilations_is_bounded(tmp_path):
    made = json.dumps({"outcome": "ok", "nth": 1, "trigger": "forward"})
    events = [
        synthetic.event("f", i * 1000, 500, kind="compile", compile_id=f"{i}/0", detail=made)
        for i in range(MOST_MARKS + 50)
    ]
    with load(written(tmp_path, events)) as trace:
        strip = compile_marks(trace)
        text = flat(recompiles.layout("id", trace, {}))
    assert strip.totals["first"] == MOST_MARKS + 50
    assert (len(strip.marks), strip.left_out) == (MOST_MARKS, 50)
    assert "50 short ones not drawn" in text


def test_a_run_without_alerts_says_that_nothing_is_wrong(tmp_path):
    with load(written(tmp_path, [first(0)])) as trace:
        text = flat(recompiles.layout("id", trace, {}))
    assert "Nothing was compiled again without need" in text


def test_where_compilation_was_not_observed_silence_means_nothing(traces):
    for name in ("usual", "hostile", "bare", "empty"):
        if name not in traces:
            continue
        with load(traces[name]) as trace:
            text = flat(recompiles.layout("id", trace, {}))
        assert "Compilation was not observed" in text, name
