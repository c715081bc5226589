"""Lines matched through edits: labelled by hand, so that a wrong match and a missed one are both seen.

A case of ``line_matching_cases.txt`` is a text before and one after; lines with the same mark (``#a``) are
one line. A mark on one side only says that the line has no partner.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.analysis.function_spans import MODULE, function_spans
from neuron_explorer.analysis.line_matching import match_lines

MARK = re.compile(r"\s*#([a-z])$")

CASES: dict[str, tuple[str, str]] = {}
for part in (Path(__file__).parent / "line_matching_cases.txt").read_text(encoding="utf-8").split("=== ")[1:]:
    name, _, texts = part.partition("\n")
    old_text, _, new_text = texts.partition("\n--- after\n")
    CASES[name] = (old_text, new_text)


def labelled(text: str) -> tuple[str, dict[str, int]]:
    """The text without marks, and the line of each."""
    lines, marks = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        found = MARK.search(line)
        if found:
            marks[found[1]] = number
            line = line[: found.start()]
        lines.append(line)
    return "\n".join(lines), marks


def outcome(before: str, after: str) -> tuple[int, int, int]:
    """(right, wrong, missed) over the marked lines."""
    old, first = labelled(before)
    new, second = labelled(after)
    found = match_lines(old, new)
    right = wrong = missed = 0
    for mark, line in first.items():
        match = found.get(line)
        if match is None:
            missed += mark in second
        elif second.get(mark) == match.line:
            right += 1
        else:
            wrong += 1
    taken = {match.line for line, match in found.items() if line not in first.values()}
    wrong += sum(line in taken for line in second.values())
    return right, wrong, missed


@pytest.mark.parametrize("case", CASES)
def test_no_match_is_wrong(case):
    assert outcome(*CASES[case])[1] == 0


def test_precision_and_recall_over_all_cases():
    totals = [sum(values) for values in zip(*(outcome(*case) for case in CASES.values()), strict=True)]
    right, wrong, missed = totals
    assert len(CASES) >= 66 and right >= 240
    assert wrong == 0
    assert right / (right + missed) >= 0.9, f"{missed} of {right + missed} lines missed"


@pytest.mark.parametrize(("case", "mark", "kind"), [
    ("import above", "a", "same"), ("argument added", "a", "edited"), ("function renamed", "a", "renamed"),
    ("split into two", "c", "moved"),
])  # fmt: skip
def test_how_a_line_was_found(case, mark, kind):
    before, first = labelled(CASES[case][0])
    after, _ = labelled(CASES[case][1])
    assert match_lines(before, after)[first[mark]].kind == kind


names = st.sampled_from(["x", "y", "loss", "self.a(x)", "g(y)", "h"])
bodies = st.lists(st.tuples(names, names), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(bodies, bodies)
def test_each_line_has_one_partner_at_most_and_a_text_matches_itself(one, two):
    texts = ["def f(x):\n" + "\n".join(f"    {a} = {b}" for a, b in body) + "\n" for body in (one, two)]
    found = match_lines(*texts)
    assert len({m.line for m in found.values()}) == len(found)
    same = match_lines(texts[0], texts[0])
    assert {n: m.line for n, m in same.items()} == {n: n for n in range(1, len(one) + 2)}


def test_spans_give_each_line_to_one_function():
    text = (
        "x = 1\n\n\n@deco\ndef f():\n    def g():\n        return 1\n    return g\n\n\n"
        "class C:\n    def m(self):\n        pass\n"
    )
    spans = {s.name: s.lines for s in function_spans(text)}
    assert set(spans) == {MODULE, "f", "f.<locals>.g", "C.m"}
    assert spans["f"] == (4, 5, 8) and spans["f.<locals>.g"] == (6, 7) and spans["C.m"] == (12, 13)
    assert sorted(n for lines in spans.values() for n in lines) == list(range(1, text.count("\n") + 2))


@pytest.mark.parametrize("text", ["", "\0", "def f(:\n", "(" * 5000, "a\n" * 2000])
def test_texts_of_any_kind_are_matched_without_an_error(text):
    assert isinstance(match_lines(text, text + "\nmore"), dict)
