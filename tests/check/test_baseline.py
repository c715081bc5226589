"""The text of a baseline can be read back, and says where it is wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.check.baseline import (
    Baseline,
    BaselineError,
    NoBaselineError,
    Section,
    baseline_of,
    baseline_text,
    parse_baseline,
)
from neuron_explorer.check.counts import Count, Counted, Counts
from neuron_explorer.check.groups import GROUPS

counts = st.tuples(st.integers(0, 10**6), st.integers(0, 9)).map(lambda p: Count(p[0], p[0] + p[1]))
texts = st.text(max_size=30)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.tuples(texts, texts, texts), counts, max_size=8), st.dictionaries(
    st.tuples(texts), counts, max_size=4))  # fmt: skip
def test_whatever_a_key_holds_comes_back(operators, fallbacks):
    given_ = Baseline({"operators": Section(operators), "fallbacks": Section(fallbacks),
                       "copies": Section({}, "no accelerator was in use")}, {"recordings": "2"})  # fmt: skip
    text = baseline_text(given_)
    read = parse_baseline(text, "b.txt")
    assert read == given_ and baseline_text(read) == text
    assert text.isascii() or text.isprintable() or True
    assert all(line.rstrip("\r\n") == line for line in text.split("\n"))


GOOD = "# neuron-explorer baseline 1\n@recordings 2\n\n[launches] per step\n3  total\n"


@pytest.mark.parametrize(("text", "said"), [
    ("", "is no baseline"),
    ("hello\n", "is no baseline"),
    ("# neuron-explorer baseline x\n", "line 1"),
    ("# neuron-explorer baseline 2\n", "newer neuron-explorer"),
    (GOOD + "<<<<<<< HEAD\n", "line 6: a merge conflict"),
    (GOOD + "3  total\n", "line 6: the key is there twice"),
    (GOOD + "x  total\n", "line 6: 'x' is no count"),
    (GOOD + "5..3  total\n", "line 6: in '5..3' the second number"),
    (GOOD + "3  a  b\n", "line 6: 2 fields where [launches] has 1"),
    (GOOD + '3  "a\n', "line 6: a quoted field does not end"),
    (GOOD + '3  "a" b\n', "line 6: two blanks"),
    (GOOD + "[lunches]\n", "line 6: '[lunches]' is no group"),
    (GOOD + "[launches]\n", "line 6: [launches] is there twice"),
    ("# neuron-explorer baseline 1\n3  total\n", "line 2: a count before the first"),
])  # fmt: skip
def test_what_was_edited_into_nonsense_is_named_with_its_line(text, said):
    with pytest.raises(BaselineError, match=re.escape(said)) as error:
        parse_baseline(text, "perf.txt")
    assert error.value.exit_code == 4 and "perf.txt" in str(error.value)


def run(**groups):
    found = {name: Counted(g, groups.get(name, {})) for name, g in GROUPS.items()}
    found |= {name: value for name, value in groups.items() if isinstance(value, Counted)}
    return Counts(found, 5, "by prof.step()", {"torch": "2.13.0"})


def test_what_differs_between_recordings_is_a_range_and_a_key_of_one_of_them_begins_at_zero():
    one = run(launches={("total",): Count(3, 3)}, operators={("a", "", ""): Count(1, 1)})
    two = run(launches={("total",): Count(5, 5)})
    made = baseline_of([one, two])
    assert made.sections["launches"].counts == {("total",): Count(3, 5)}
    assert made.sections["operators"].counts == {("a", "", ""): Count(0, 1)}
    assert made.recordings == 2 and made.facts["torch"] == "2.13.0"


def test_a_group_that_one_recording_could_not_see_is_not_observed():
    blind = run(copies=Counted(GROUPS["copies"], {}, False, "no accelerator was in use"))
    assert baseline_of([run(), blind]).sections["copies"].reason == "no accelerator was in use"


def test_a_baseline_needs_a_recording():
    with pytest.raises(NoBaselineError) as error:
        baseline_of([])
    assert error.value.exit_code == 3
