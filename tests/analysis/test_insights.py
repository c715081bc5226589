"""Insights: each rule speaks from its threshold on, with evidence, and never promises more than the time involved."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace

from neuron_explorer.analysis.insight import Look, gains
from neuron_explorer.analysis.insight_rules import RULES
from neuron_explorer.analysis.insights import insights
from neuron_explorer.analysis.questions import ask
from neuron_explorer.trace.store import load

SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*.parquet"))
STEPS = [(0, 1000, "warmup"), *((1000 * i, 1000, "steady") for i in range(1, 7))]


def op(start, duration, *children, line=1, name="aten::mm", **more):
    more.setdefault("shapes", "[[4,4],[4,4]]")
    more.setdefault("dtypes", '["bfloat16","bfloat16"]')
    return event(name, start, duration, *children, file="m.py", line=line, function="f", outermost_on_line=True, **more)


def keys(events, steps=STEPS):
    return {f.key: f for f in insights(memory_trace(events, steps)).found}


def every_step(*makes):
    return [make(1000 * i) for i in range(1, 7) for make in makes]


@pytest.mark.parametrize(("share", "there"), [(0.19, False), (0.20, True), (0.55, True)])
def test_the_line_that_takes_most_is_named_from_its_threshold_on(share, there):
    long = int(1000 * share)
    found = keys(every_step(lambda s: op(s + 10, long, line=3), lambda s: op(s + 700, 20, line=4)))
    assert ("line" in found) is there
    if there:
        finding = found["line"]
        assert (finding.file, finding.line, finding.report) == ("m.py", 3, "lines")
        assert finding.gain_ns == (0.0, pytest.approx(long))


def test_waste_is_an_insight_with_its_line_event_and_action():
    def zero(start):
        inner = op(start + 11, 40, line=8, name="aten::zero_", shapes="[[4]]", dtypes='["float32"]')
        return event("Optimizer.zero_grad#SGD.zero_grad", start + 10, 60, inner, kind="range", file="m.py", line=8)

    finding = keys(every_step(zero))["zero_fill"]
    assert (finding.file, finding.line, finding.level) == ("m.py", 8, "cost")
    assert finding.gain_ns == (0.0, 40.0) and "set_to_none" in finding.action and finding.event >= 0


def test_what_cannot_be_seen_is_not_observed_and_not_nothing():
    answer = ask(memory_trace(every_step(lambda s: op(s + 10, 100)), STEPS), "insights")
    outcome = {r["key"]: r for r in answer.table("rules").records()}
    assert set(outcome) == set(RULES)
    assert outcome["mfu"]["outcome"] == outcome["recomputed"]["outcome"] == "not observed"
    assert "tensors=True" in outcome["recomputed"]["why"]
    assert outcome["gc"] == outcome["gc"] | {"outcome": "nothing", "measured": 0.0}


def test_nothing_found_is_an_answer():
    answer = ask(memory_trace([], []), "insights")
    assert answer.headline == "nothing stands out: no rule passes its threshold"
    assert len(answer.table("rules").rows) == len(RULES)


def test_float32_products_are_named_by_what_the_chips_rates_say():
    large = dict(shapes="[[4096,4096],[4096,4096]]")
    full = keys(every_step(lambda s: op(s + 10, 100, dtypes='["float32","float32"]', **large)))
    half = keys(every_step(lambda s: op(s + 10, 100, **large)))
    assert "float32_matrix" in full and "float32_matrix" not in half


durations = st.integers(0, 900)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), durations), min_size=1, max_size=6))
def test_no_gain_is_larger_than_the_step_or_the_time_of_its_line(calls):
    def make(start):
        at, made = start, []
        for line, duration in calls:
            made.append(op(at, min(duration, 150), line=line))
            at += min(duration, 150) + 5
        return made

    result = insights(memory_trace([e for i in range(1, 7) for e in make(1000 * i)], STEPS))
    spent = {line: sum(min(d, 150) for at, d in calls if at == line) for line in (1, 2, 3)}
    for finding in result.found:
        if finding.gain_ns is not None:
            low, high = finding.gain_ns
            assert 0 <= low <= high <= result.look.unit_ns
            if finding.key == "line":
                assert high <= spent[finding.line] + 1e-6


def test_gains_stay_within_the_time_involved():
    look = insights(memory_trace(every_step(lambda s: op(s + 10, 100)), STEPS)).look
    rule = dataclasses.replace(RULES["line"], gain=(0.5, 1.0))
    said, (low, high) = gains(rule, look, 600.0)  # over six steps
    assert (low, high) == (50.0, 100.0) and said == "5.0 % to 10.0 % of a steady step"
    assert gains(rule, look, 1e12)[1] == (500.0, 1000.0)
    assert gains(dataclasses.replace(rule, gain=(0.0, 0.0)), look, 600.0) == ("", None)
    assert isinstance(look, Look)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_every_finding_has_evidence_and_leads_to_rows_of_the_trace(sample):
    with load(sample) as trace:
        found = insights(trace).found
        ids = [f.event for f in found if f.event >= 0]
        seen = trace.sql(f"SELECT id FROM events WHERE id IN ({', '.join(map(str, ids)) or 'NULL'})")
        assert len(seen) == len(set(ids))
        files = set(trace.sql("SELECT DISTINCT file FROM events WHERE file IS NOT NULL").file)
    assert found, "a recording of training has something to say"
    for finding in found:
        assert finding.title and finding.evidence
        assert not finding.file or finding.file in files
        json.dumps(dataclasses.asdict(finding))


def test_a_sample_that_leaks_is_told_so_at_its_line():
    (sample,) = [path for path in SAMPLES if path.stem == "memory_training"]
    with load(sample) as trace:
        finding = next(f for f in insights(trace).found if f.key == "leak")
    assert finding.file.endswith(".py") and finding.line > 0 and "a step" in finding.title
