"""Names of places: what changes them, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace

from neuron_explorer.analysis.place import NOWHERE, FilePlaces, Places, normalised, portable, spans

SOURCE = """import torch


class Model:
    def forward(self, x):
        x = self.a(x)
        x = self.b(x)  # the second
        x = self.a(x)
        return x.sum()


def main():
    model = Model()
    for batch in load():
        loss = model(batch)
        loss.backward()
"""


def keys(text: str, path: str = "model.py") -> dict[str, int]:
    """Each statement's key and line, as a trace of it would have them."""
    places = FilePlaces(path, text)
    inside = [(first, last) for first, last in spans(text)]
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and any(first < number <= last for first, last in inside):
            found[" | ".join(places.of(number, "f").key)] = number
    return found


EDITS = {
    "an import above": lambda s: "import os\n" + s,
    "a comment above": lambda s: "# why\n\n" + s,
    "a comment behind a line": lambda s: s.replace("x = self.a(x)\n", "x = self.a(x)  # first\n", 1),
    "a comment inside": lambda s: s.replace("    def forward", "    # forward\n    def forward"),
    "a docstring of another function": lambda s: s.replace("def main():\n", 'def main():\n    """Run."""\n'),
    "another function before": lambda s: s.replace("def main", "def other():\n    return 1\n\n\ndef main"),
    "blanks within a line": lambda s: s.replace("loss = model(batch)", "loss  =  model(batch)"),
    "deeper indentation": lambda s: s.replace("        loss = ", "            loss = ").replace(
        "        loss.backward", "            loss.backward"),
    "windows line ends": lambda s: s.replace("\n", "\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_edits_elsewhere_change_no_key(edit):
    assert set(keys(SOURCE)) <= set(keys(edit(SOURCE)))


def test_an_edited_line_changes_its_own_key_only():
    before, after = set(keys(SOURCE)), set(keys(SOURCE.replace("self.b(x)", "self.c(x)")))
    assert len(before - after) == len(after - before) == 1


def test_equal_lines_of_a_function_are_told_apart_and_those_of_another_do_not_count():
    places = FilePlaces("m.py", SOURCE)
    assert [places.of(n, "forward").occurrence for n in (6, 8)] == [0, 1]
    twice = SOURCE.replace("class Model", "def helper(self, x):\n    x = self.a(x)\n\n\nclass Model")
    assert set(keys(SOURCE)) <= set(keys(twice))


@pytest.mark.parametrize(("path", "same"), [
    ("train.py", "train.py"),
    ("/home/u/venv/lib/python3.11/site-packages/transformers/models/x.py", "transformers/models/x.py"),
    ("C:\\py\\Lib\\site-packages\\peft\\a.py", "peft/a.py"),
    ("/usr/lib/python3.12/contextlib.py", "contextlib.py"),
])  # fmt: skip
def test_paths_do_not_depend_on_where_things_lie(path, same):
    assert portable(path) == same


@pytest.mark.parametrize(("line", "text"), [
    ("    x = 1  # one", "x = 1"),
    ("y = '#no' + \"# no\"  # yes", "y = '#no' + \"# no\""),
    ("z = '''# no'''", "z = '''# no'''"),
    ("print('it\\'s # no')", "print('it\\'s # no')"),
    ("a  =\tb", "a = b"),
])  # fmt: skip
def test_text_of_a_line_is_without_comment_and_layout(line, text):
    assert normalised(line) == text


@pytest.mark.parametrize("text", ["def f(:\n  x\n", "\0", "x = " + "(" * 20_000, "match x:\n"])
def test_text_that_is_no_python_still_has_places(text):
    assert spans(text) == []
    FilePlaces("m.py", text).of(1, "f")


def test_a_trace_without_source_gives_one_place_a_function():
    trace = memory_trace([event("aten::mm", 10, 5, file="m.py", line=3, function="f")], [])
    places = Places(trace)
    assert places.of("m.py", 3, "f") == places.of("m.py", 9, "f")
    assert places.of(None, -1, None) == NOWHERE
    assert places.line(places.of("m.py", 3, "f")) == ("m.py", 3)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abc=#'\"\\ \t()", max_size=40))
def test_normalising_again_changes_nothing_and_never_grows(line):
    once = normalised(line)
    assert normalised(once) == once and len(once) <= len(line)


METHODS = """\
class Net:
    def forward(self, x):
        return [self.one(y) for y in x]

    def one(self, y):
        def one():
            return y
        return one()

def forward(x):
    return (lambda z: z)(x)
"""


@pytest.mark.parametrize(("line", "short", "qualified"), [
    (2, "forward", "Net.forward"), (3, "forward", "Net.forward"), (3, "<listcomp>", "Net.forward.<locals>.<listcomp>"),
    (7, "one", "Net.one.<locals>.one"), (8, "one", "Net.one"), (10, "forward", "forward"),
    (11, "<lambda>", "forward.<locals>.<lambda>"), (1, "<module>", "<module>"), (9, "gone", "gone"), (3, "", ""),
])  # fmt: skip
def test_a_function_that_is_known_by_its_own_name_only_is_found_in_the_source(line, short, qualified):
    places = FilePlaces("m.py", METHODS)
    assert places.of(line, short).function == qualified
    assert places.of(line, qualified) == places.of(line, short), "the place is the same on every Python"
