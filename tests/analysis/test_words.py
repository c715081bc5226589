"""Numbers, names and shapes as text."""

from __future__ import annotations

import pytest

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.modules import ancestors, module_pattern, wildcard
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.shapes import dtype_text, shape_text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"), (0, "0"), (7, "7 ns"), (999, "999 ns"), (1_000, "1.00 µs"), (41_234_567, "41.2 ms"),
        (999_600, "1.00 ms"), (999_999_999, "1.00 s"), (1_500_000_000, "1.50 s"), (90_000_000_000, "90.0 s"),
        (1_234_000_000_000, "1,234 s"), (12.4, "12 ns"),
    ],
)  # fmt: skip
def test_durations(ns, text):
    assert q.duration(ns) == text


def test_counts_and_shares():
    assert q.count(1234567) == "1,234,567"
    assert q.per_step(2310.0) == "2,310"
    assert q.per_step(2.5) == "2.5"
    assert q.share(0.192) == "19.2 %"
    assert q.share(0.00001) == "< 0.1 %"
    assert q.share(0) == "0.0 %"
    assert q.plural(1, "step") == "1 step"
    assert q.plural(2, "process", "processes") == "2 processes"


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        ([], ""),
        ([None, ""], ""),
        (["model.head"], "model.head"),
        ([f"layers.{i}.mlp" for i in range(12)], "layers.*.mlp"),
        (["layers.3.mlp"], "layers.3.mlp"),
        (["a.0.b.0", "a.0.b.1"], "a.0.b.*"),
        (["layers.0.mlp", "layers.1.mlp", "head"], "layers.*.mlp +1"),
    ],
)
def test_module_patterns(names, pattern):
    assert module_pattern(names) == pattern
    assert module_pattern(reversed(names)) == pattern


def test_module_paths():
    assert wildcard("layers.3.mlp.0") == "layers.*.mlp.*"
    assert ancestors("a.b.c") == ["a.b.c", "a.b", "a"]


def test_printing_a_hostile_name():
    assert plain("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m"
    assert plain("a\nb\u202eb\ud800") == "a\\x0ab\\u202eb\\ud800"
    assert plain("naïve λ 名") == "naïve λ 名"
    assert len(plain("x" * 5000)) == 200
    assert short_file("C:\\a\\b.py") == short_file("/a/b.py") == "b.py"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[[8,128,256],[256,256],null]", "8×128×256, 256×256"),
        ("[[],null,[3]]", "(), 3"),
        ("[[[2,3],[4]],null]", "[2×3, 4]"),
        (None, ""),
        ("{}", ""),
        ("not json", ""),
        ("[" * 10_000, ""),
        ('["<script>"]', ""),
    ],
)
def test_shapes(text, shown):
    assert shape_text(text) == shown


def test_dtypes():
    assert dtype_text('["float32","float32",null]') == "float32"
    assert dtype_text('["float32",["int64","int64"]]') == "float32, int64"
    assert dtype_text(None) == ""
