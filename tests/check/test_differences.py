"""Every kind of regression is found with its line, and an unchanged program has none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace, metadata

from neuron_explorer.check.baseline import baseline_of, baseline_text, parse_baseline
from neuron_explorer.check.counts import Count, counts_of
from neuron_explorer.check.differences import differences
from neuron_explorer.check.words import cause, name_of

SOURCE = "def f(x):\n    y = x @ x\n    z = y.relu()\n    return z.cpu()\n"


def steps(n):
    return [(0, 1000, "warmup"), *((1000 * i, 1000, "steady") for i in range(1, n + 1))]


def op(start, name="aten::mm", line=2, **more):
    more.setdefault("shapes", "[[4,4],[4,4]]")
    more.setdefault("dtypes", '["float32","float32"]')
    return event(name, start, 10, file="m.py", line=line, function="f", **more)


def usual(start):
    copy = event("aten::_copy_from", start + 40, 5, kind="copy", file="m.py", line=4, function="f",
                 detail=json.dumps({"direction": "device_to_host", "bytes": 64}))  # fmt: skip
    return [op(start + 10), op(start + 25, "aten::relu", 3, shapes="[[4,4]]", dtypes='["float32"]'), copy]


def seen(**more):
    base = metadata()["capabilities"] | {
        name: {"observed": True, "reason": ""} for name in ("sync", "fallback", "compile", "graph_breaks")
    }
    return base | more


def counted(make=usual, n=4, extra=(), source=SOURCE, capabilities=None, **meta):
    events = [e for i in range(n + 1) for e in make(1000 * i)]
    return counts_of(
        memory_trace([*events, *extra], steps(n), sources={"m.py": source} if source else {},
                     capabilities=capabilities or seen(), **meta)
    )  # fmt: skip


def compared(after, before=None):
    text = baseline_text(baseline_of([before or counted()]))
    return differences(parse_baseline(text, "b"), after)


def test_the_same_program_differs_in_nothing_whatever_the_number_of_steps():
    for n in (3, 4, 9):
        result = compared(counted(n=n))
        assert not result.found and not result.unseen and not result.lost and result.compared >= 8


def test_an_import_above_moves_every_line_and_changes_nothing():
    moved = counted(lambda s: [op(s + 10, line=4), op(s + 25, "aten::relu", 5, shapes="[[4,4]]", dtypes='["float32"]'),
                               *[e for e in usual(s)[2:] if e.columns.update(line=6) is None]],
                    source="import os\nimport re\n" + SOURCE)  # fmt: skip
    assert not compared(moved).found


CHANGES = {
    "one more operator": (lambda s: [*usual(s), op(s + 60)], "lines", ("m.py", 2)),
    "another dtype": (lambda s: [op(s + 10, dtypes='["float64","float64"]'), *usual(s)[1:]], "operators", None),
    "another shape": (lambda s: [op(s + 10, shapes="[[4,8],[8,4]]"), *usual(s)[1:]], "operators", None),
    "a renamed operator": (lambda s: [op(s + 10, "aten::bmm"), *usual(s)[1:]], "operators", None),
    "an extra copy": (lambda s: [*usual(s), *[e for e in usual(s + 40)[2:]]], "copies", ("m.py", 4)),
    "a wait": (lambda s: [*usual(s), event("aten::item", s + 70, 5, kind="sync", file="m.py", line=3, function="f")],
               "synchronisations", ("m.py", 3)),
    "a fallback": (lambda s: [*usual(s), event("aten::sort", s + 70, 5, kind="fallback", file="m.py", line=2,
                                               function="f")], "fallbacks", ("m.py", 2)),
}  # fmt: skip


@pytest.mark.parametrize(("make", "group", "place"), CHANGES.values(), ids=CHANGES.keys())
def test_each_change_of_a_step_is_a_regression_at_its_line(make, group, place):
    found = [d for d in compared(counted(make)).of("regression") if d.group.name == group]
    assert found
    if place:
        assert place in {(d.file, d.line) for d in found}


def test_an_almost_empty_recording_is_a_lost_capture():
    assert compared(counted(lambda s: usual(s)[:1])).lost
    assert not compared(counted(lambda s: usual(s)[:2])).lost


def test_less_work_is_an_improvement_and_no_regression():
    result = compared(counted(lambda s: usual(s)[:2]))
    assert not result.of("regression") and result.of("improvement")


def test_what_varies_is_unstable_and_never_blocks():
    varying = [counted(lambda s, k=k: usual(s) + [op(s + 60 + 12 * i) for i in range(k)]) for k in (0, 2)]
    baseline = parse_baseline(baseline_text(baseline_of(varying)), "b")
    for k in (0, 1, 2):
        now = counted(lambda s, k=k: usual(s) + [op(s + 60 + 12 * i) for i in range(k)])
        assert not differences(baseline, now).found
    more = differences(baseline, counted(lambda s: usual(s) + [op(s + 60 + 12 * i) for i in range(5)]))
    assert {d.verdict for d in more.found} == {"unstable"}


def test_another_torch_makes_operator_counts_suspicious_and_waits_still_block():
    make = CHANGES["a wait"][0]
    other = metadata()["versions"] | {"torch": "2.14.1"}
    result = compared(counted(lambda s: [*make(s), op(s + 80)], versions=other))
    assert ("torch", "2.13.0", "2.14.1") in result.apart
    assert {d.group.name for d in result.of("regression")} == {"synchronisations"}
    assert "operators" in {d.group.name for d in result.of("suspicious")}


def test_a_group_that_one_side_could_not_see_is_named_with_its_option():
    blind = seen(shapes={"observed": False, "reason": "recorded with shapes=False"})
    (first, *_) = compared(counted(capabilities=blind)).unseen
    assert (first.group.name, first.side) == ("operators", "run") and "shapes=True" in first.how
    assert {u.side for u in compared(counted(), counted(capabilities=blind)).unseen} == {"baseline"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["aten::mm", "aten::add", "aten::relu"]), st.integers(2, 4)), min_size=1,
                max_size=6), st.integers(3, 6))  # fmt: skip
def test_any_program_agrees_with_itself_and_not_with_itself_and_one_more(calls, n):
    def make(start):
        return [op(start + 12 * i, name, line) for i, (name, line) in enumerate(calls)]

    once = counted(make, n)
    assert not compared(counted(make, n + 1), once).found
    more = compared(counted(lambda s: [*make(s), op(s + 500)], n), once)
    assert {"launches", "operators", "lines"} <= {d.group.name for d in more.of("regression")}


def likely(make):
    found = compared(counted(make)).of("regression")
    return {cause(d, found) for d in found if d.group.name == "operators"}, found


def test_the_likely_cause_names_what_an_operator_had_before():
    def with_relu(**more):
        return lambda s: [usual(s)[0], op(s + 25, "aten::relu", 3, **more), *usual(s)[2:]]

    said, _ = likely(with_relu(shapes="[[4,4]]", dtypes='["float64"]'))
    assert said == {"its dtypes changed: they were float32", "its dtypes changed: they are float64"}
    said, _ = likely(with_relu(shapes="[[8,4]]", dtypes='["float32"]'))
    assert said == {"its sizes changed: they were 4×4", "its sizes changed: they are 8×4"}
    for name, word in (("aten::item", "is read"), ("aten::clone", "is copied"), ("aten::mul.Tensor", "changed")):
        said, found = likely(lambda s, n=name: [*usual(s), op(s + 500, n, 1)])
        assert len(said) == 1 and word in next(iter(said))
        (line,) = [d for d in found if d.group.name == "lines"]
        assert cause(line).startswith("the line is new") and "float32 4×4" in name_of(
            next(d for d in found if d.group.name == "operators"))  # fmt: skip


ENVIRONMENTS = {
    "torch": {"versions": metadata()["versions"] | {"torch": "2.14.1"}},
    "python": {"versions": metadata()["versions"] | {"python": "3.14.0"}},
    "cpu": {"machine": {"cpu": "another CPU", "threads": 2}},
    "threads": {"machine": {"cpu": "a CPU", "threads": 64}},
    "chip": {"device": {"type": "cpu", "name": "another chip", "emulated": False}},
}
HERE = {"machine": {"cpu": "a CPU", "threads": 2}}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_in_another_environment_only_what_does_not_depend_on_it_blocks(name):
    baseline = baseline_of([counted(**HERE)])
    there = counted(**{**HERE, **ENVIRONMENTS[name]})
    again = differences(baseline, there)
    assert [what for what, _, _ in again.apart] == [name] and not again.found
    verdicts = {}
    for group, known in there.groups.items():
        if not known.observed:
            continue
        key = tuple(f"new {field}" for field in known.group.fields)
        more = replace(known, counts={**known.counts, key: Count(1, 1)})
        found = differences(baseline, replace(there, groups={**there.groups, group: more})).found
        verdicts[group] = {d.verdict for d in found}
    firm = {"recompiles", "graph_breaks", "fallbacks", "synchronisations"}
    assert firm <= set(verdicts) and {"operators", "lines", "launches", "collectives"} <= set(verdicts)
    for group, seen in verdicts.items():
        assert seen == ({"regression"} if group in firm else {"suspicious"}), group
