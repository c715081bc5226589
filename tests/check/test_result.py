"""Exit codes and outputs of a check."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.check.baseline import baseline_of, baseline_text, parse_baseline
from neuron_explorer.check.config import Config, config_of
from neuron_explorer.check.counts import Count, Counted, Counts
from neuron_explorer.check.groups import GROUPS
from neuron_explorer.check.render import (
    MOST_ANNOTATIONS,
    MOST_MARKDOWN,
    github_annotations,
    render_json,
    render_junit,
    render_markdown,
    render_text,
)
from neuron_explorer.check.result import check
from neuron_explorer.check.self_test import self_test

PLACE = ("train.py", "main", "loss.item()", "0")
BASE = {
    "launches": {("total",): Count(10, 10)},
    "operators": {("aten::mm", "d", "s"): Count(4, 4)},
    "lines": {PLACE: Count(4, 4)},
}


def run(blind=(), places=None, **groups):
    found = {}
    for name, group in GROUPS.items():
        counts = groups.get(name, BASE.get(name, {}))
        shown = {key: ("train.py", 7) for key in counts if group.fields[0] == "path"}
        unseen = name in blind
        found[name] = Counted(group, {} if unseen else counts, not unseen, "not recorded" if unseen else "", shown)
    return Counts(found, 5, "by prof.step()", {"torch": "2.13.0"})


def result(after, before=None, config=None, **more):
    baseline = parse_baseline(baseline_text(baseline_of([before or run()])), "b")
    return check(after, baseline, config or Config(), **more)


WORSE = run(synchronisations={PLACE: Count(1, 1)})


@pytest.mark.parametrize(("made", "code"), [
    (lambda: result(run()), 0),
    (lambda: result(WORSE), 1),
    (lambda: result(run(launches={("total",): Count(9, 9)})), 0),
    (lambda: result(run(launches={("total",): Count(9, 9)}), config=Config(improvement="fail")), 1),
    (lambda: result(run(launches={("total",): Count(2, 2)})), 1),
    (lambda: result(run(blind=["operators"])), 3),
    (lambda: result(run(), run(blind=["operators"])), 3),
    (lambda: result(run(blind=["copies"]), run(blind=["copies"])), 0),
    (lambda: check(run(), None, Config()), 3),
    (lambda: check(run(), None, Config({"max_recompiles": 0})), 0),
    (lambda: check(run(recompiles={(*PLACE, "size", "x"): Count(2, 2)}), None, Config({"max_recompiles": 1})), 1),
    (lambda: check(run(blind=["recompiles"]), None, Config({"max_recompiles": 1})), 3),
    (lambda: check(run(), None, Config({"min_attributed_share": 0.9}), attributed=0.8), 1),
    (lambda: check(run(), None, Config({"min_attributed_share": 0.9}), attributed=0.9), 0),
    (lambda: check(run(), None, Config({"min_attributed_share": 0.9})), 3),
    (lambda: result(WORSE, config=Config(warn=("synchronisations",))), 0),
    (lambda: result(Counts({n: Counted(g, {}) for n, g in GROUPS.items()}, 0, "", {}),
                    Counts({n: Counted(g, {}) for n, g in GROUPS.items()}, 0, "", {})), 3),
])  # fmt: skip
def test_exit_codes(made, code):
    assert made().exit_code == code


ALLOW = {"allow": [{"rule": "synchronisations", "place": "train.py:main", "reason": "logging", "until": "2027-01-31"}]}


def test_an_allowance_holds_until_its_day_and_its_end_is_said():
    config = config_of(ALLOW, "x")
    before = result(WORSE, config=config, today=date(2027, 1, 31))
    assert before.exit_code == 0 and "allowed" in render_text(before) and "logging" in render_text(before)
    after = result(WORSE, config=config, today=date(2027, 2, 1))
    assert after.exit_code == 1 and "allowance expired on 2027-01-31" in render_text(after)
    allowed = [{"rule": "max_recompiles", "place": "train.py", "reason": "r"}]
    budget = config_of({"max_recompiles": 0, "allow": allowed}, "x")
    again = run(recompiles={(*PLACE, "size", "x"): Count(2, 2)})
    assert check(again, None, budget).exit_code == 0
    assert check(again, None, Config({"max_recompiles": 0})).exit_code == 1


def test_the_text_names_tool_line_before_after_cause_and_the_command_that_accepts():
    text = render_text(result(WORSE, accept="neuron-explorer baseline t.parquet -o b"))
    first, second, *rest = text.splitlines()
    assert first.startswith("neuron-explorer ") and first.endswith(" check")
    assert second == "failed: 1 regression"
    assert "train.py:7" in text and "none → 1 a step" in text and "likely: the host waits" in text
    assert rest[-1] == "accept all of it: neuron-explorer baseline t.parquet -o b"


def test_json_and_junit_say_the_same():
    made = result(WORSE)
    document = json.loads(render_json(made))
    assert (document["check_version"], document["exit_code"]) == (1, 1)
    assert document["regressions"][0]["file"] == "train.py" and document["regressions"][0]["after"] == [1, 1]
    suite = ElementTree.fromstring(render_junit(made))
    assert suite.get("failures") == "1"
    assert [c.get("name") for c in suite if c.find("failure") is not None] == [GROUPS["synchronisations"].title]
    assert ElementTree.fromstring(render_junit(check(run(), None, Config()))).get("failures") == "1"


def test_annotations_stand_at_lines_are_escaped_and_at_most_ten():
    many = {("a,b:c.py", "f", f"x{i} = 1 % 2\n::error::", "0"): Count(1, 1) for i in range(30)}
    found = Counts({**run().groups, "lines": Counted(GROUPS["lines"], many, places={k: ("a,b:c.py", 3) for k in many})},
                   5, "", {})  # fmt: skip
    lines = github_annotations(result(found))
    assert len(lines) == MOST_ANNOTATIONS
    assert all(line.startswith("::error file=a%2Cb%3Ac.py,line=3,title=") and "\n" not in line for line in lines)


HOSTILE_PATHS = ["a b/c d.py", "100%.py", "a\nb.py", "x::error::y.py", "a,b:c.py", "\x1b[31m.py", "a|b`c<d>.py",
                 "é/ü.py"]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_path_of_any_kind_breaks_no_output(path):
    key = (path, "f", "x = 1", "0")
    after = Counts({**run().groups, "lines": Counted(GROUPS["lines"], {key: Count(1, 1)}, places={key: (path, 3)})},
                   5, "", {})  # fmt: skip
    made = result(after)
    (new,) = [d for d in json.loads(render_json(made))["regressions"] if d["change"] == "new"]
    assert new["key"]["path"] == path and (new["file"], new["line"]) == (path, 3)
    for line in github_annotations(made):
        command, _, message = line[2:].partition("::")
        assert line.count("\n") == 0 and "\r" not in line and command.startswith("error ")
        given = dict(p.split("=", 1) for p in command.removeprefix("error ").split(","))
        assert set(given) <= {"file", "line", "title"} and ":" not in given["title"]
        if "file" in given:
            assert _unescaped(given["file"]) == path and given["line"] == "3"
        assert "%0A" not in message or "\n" in _unescaped(message)
    folded = github_annotations(made, "jobs/a,b")
    assert any(f"file=jobs/a%2Cb/{_escaped(path)}," in line for line in folded)
    rows = [line for line in render_markdown(made).splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows) and len(rows) == 4
    assert "\x1b" not in render_text(made) and len(render_text(made).splitlines()) < 12
    ElementTree.fromstring(render_junit(made))
    text = baseline_text(baseline_of([after]))
    assert parse_baseline(text, "b").sections["lines"].counts == {key: Count(1, 1)}


def _escaped(text):
    for char, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
        text = text.replace(char, code)
    return text


def _unescaped(text):
    for char, code in ((",", "%2C"), (":", "%3A"), ("\n", "%0A"), ("\r", "%0D"), ("%", "%25")):
        text = text.replace(code, char)
    return text


hostile = st.text(alphabet=st.sampled_from("a|`<>&%:\n\r\x00\x1b\"'☃\ud800::"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(hostile, hostile, hostile, hostile), min_size=1, max_size=5, unique=True))
def test_no_text_of_a_trace_breaks_an_output(keys):
    after = Counts({**run().groups, "lines": Counted(GROUPS["lines"], {k: Count(1, 1) for k in keys})}, 5, "", {})
    made = result(after)
    text = render_text(made)
    assert "\x1b" not in text and "\x00" not in text
    ElementTree.fromstring(render_junit(made).encode("utf-8", "replace"))
    json.loads(render_json(made))
    assert all("\n" not in line and "\r" not in line for line in github_annotations(made))
    table = [line for line in render_markdown(made).splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in table)


def test_markdown_stays_under_the_limit_of_a_step_summary():
    many = {(f"f{i}.py", "f", "x" * 380, "0"): Count(1, 1) for i in range(9000)}
    after = Counts({**run().groups, "lines": Counted(GROUPS["lines"], many)}, 5, "", {})
    assert len(render_markdown(result(after)).encode()) < MOST_MARKDOWN


def test_the_gate_sees_every_kind_of_regression():
    found = {i.name: i.seen for i in self_test(run())}
    assert found["nothing changed"] is True
    assert all(found.values()) and len(found) > 10
    blind = {i.name: i.seen for i in self_test(run(blind=["copies"]))}
    assert blind["a copy between devices"] is None
