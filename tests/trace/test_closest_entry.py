"""The cache entry that a new compilation nearly fitted, by its guards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neuron_explorer.trace.closest_entry import bare_guards, closest_entry, nearest_first
from neuron_explorer.trace.compiles import Compilation, Compiles, Place, Recompile
from neuron_explorer.trace.recompile_reasons import parse_reason

SIZE = "tensor 'x' size mismatch at index 0. expected {}, actual {}"


def compilation(number: int, size: int, k: float, frame: int = 0, **more) -> Compilation:
    guards = (f"L['k'] == {k}           # y = x * k  # a.py:5 in f", f"check_tensor(L['x'], size=[{size}])  # a.py:5")
    values = {"guards": guards, "outcome": "ok", "key": number + 1, "start": 10 * number, **more}
    end, place = values["start"] + 5, Place("a.py", 3, "f")
    return Compilation(compile_id=f"{frame}/{number}", attempt=0, end=end, thread=1, place=place, **values)


def recompile(key: int, *texts: str) -> Recompile:
    reasons = tuple(parse_reason(text) for text in texts)
    return Recompile(key, reasons, reasons[0].entry)


def test_comments_and_blanks_do_not_count():
    assert bare_guards(["L['k'] == 2.0      # y = x  # a.py:5", "L['k']  ==  2.0", "k == '#'"]) == {
        "L['k'] == 2.0", "k == '#'",
    }  # fmt: skip


def test_the_entry_with_the_fewest_other_guards_is_nearest():
    """Entry 0/0 had another k only; 0/1 another size too, but its size was tried first."""
    found = nearest_first(
        Compiles(
            1,
            (compilation(0, 4, 2.0), compilation(1, 5, 2.0), compilation(2, 4, 3.0)),
            recompiles=(
                recompile(2, "0/0: " + SIZE.format(4, 5)),
                recompile(3, "0/1: " + SIZE.format(5, 4), "0/0: L['k'] == 2.0"),
            ),
        )
    )
    first, second = found.recompiles
    assert (first.previous, first.reasons[0].cause) == ("0/0", "size")
    assert (second.previous, second.reasons[0].cause, second.reasons[0].source) == ("0/0", "python_value", "k")
    assert [r.entry for r in second.reasons] == ["0/0", "0/1"]


def test_of_entries_that_are_as_near_the_reasons_decide():
    reasons = [parse_reason("0/0: " + SIZE.format(4, 6)), parse_reason("0/1: " + SIZE.format(5, 6))]
    entries = {"0/0": {"a", "b"}, "0/1": {"a", "c"}}
    assert closest_entry(reasons, {"a", "d"}, entries) == closest_entry(reasons, (), {}) == 1


def tensor(size: str, dtype: str = "float32", stride: str = "8, 1", keys: str = "CPU, Autograd") -> str:
    return (
        f"check_tensor(L['x'], Tensor, DispatchKeySet({keys}), torch.{dtype}, device=None, "
        f"requires_grad=False, size=[{size}], stride=[{stride}])"
    )


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (tensor("4, 8", "float64"), tensor("5, 8", "float64")),  # another dtype, or another size too
        (tensor("5, 8"), tensor("5, 9")),  # one size, or two
        (tensor("None, 8"), tensor("5, 8")),  # a size that may be any
        (tensor("4"), tensor("5, 9")),  # another number of dimensions counts once
        (tensor("4, 8", stride="1, 4"), tensor("5, 9")),  # only the layout
        (tensor("4, 8", keys="CUDA, Autograd"), tensor("5, 9")),
    ],
)
def test_of_a_tensor_every_difference_counts(near, far):
    reasons = [parse_reason("0/0: " + SIZE.format(4, 6)), parse_reason("0/1: " + SIZE.format(5, 6))]
    found = {tensor("4, 8"), "k == 1"}
    for first, second, want in ((near, far, 0), (far, near, 1)):
        assert closest_entry(reasons, found, {"0/0": {first, "k == 1"}, "0/1": {second, "k == 1"}}) == want


def test_without_guards_nothing_changes():
    compiles = Compiles(
        1, (compilation(0, 4, 2.0, guards=()), compilation(1, 5, 2.0, guards=())),
        recompiles=(recompile(2, "0/0: " + SIZE.format(4, 5)),),
    )  # fmt: skip
    assert nearest_first(compiles) == compiles
    assert closest_entry([], {"a"}, {}) == -1


def test_entries_of_before_a_reset_and_of_other_functions_do_not_count():
    again = [compilation(0, 4, 3.0, key=11, start=100), compilation(1, 5, 3.0, key=12, start=110)]
    compiles = Compiles(
        1, (compilation(0, 5, 3.0), compilation(0, 5, 3.0, frame=1, key=5, start=5), *again),
        recompiles=(recompile(12, "0/0: " + SIZE.format(4, 5)),),
    )  # fmt: skip
    assert nearest_first(compiles).recompiles[0].previous == "0/0"


def test_an_attempt_that_began_anew_is_known_by_the_guards_of_the_last():
    """The reasons are told of the first attempt, which a graph break ends before it has guards."""
    first = compilation(2, 4, 3.0, guards=(), outcome="restarted")
    last = replace(compilation(2, 4, 3.0, key=4, start=21), attempt=1)
    told = recompile(3, "0/1: " + SIZE.format(5, 4), "0/0: L['k'] == 2.0")
    compiles = Compiles(1, (compilation(0, 4, 2.0), compilation(1, 5, 2.0), first, last), recompiles=(told,))
    found = nearest_first(compiles).recompiles
    assert [(r.key, r.previous) for r in found] == [(3, "0/0")]
