"""Keys hold nothing that another process, machine or edit elsewhere would name differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_explorer.check.stable import (
    MOST_FIELD,
    compiled_function,
    stable_function,
    stable_operator,
    stable_path,
    stable_text,
)


@pytest.mark.parametrize(("one", "two", "name"), [
    ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 12/3", "Torch-Compiled Region"),
    ("## Call CompiledFxGraph f" + "a2" * 25 + "b ##", "## Call CompiledFxGraph f" + "z7" * 25 + "c ##", None),
    ("__compiled_fn_3_0a1b2c3d_1111_2222_3333_444455556666", "__compiled_fn_14_ffffffff_1111_2222_3333_444455556666",
     None),
    ("<eval_with_key>.3", "<eval_with_key>.41", "<eval_with_key>"),
    ("object at 0x7f001234abcd", "object at 0x55deadbeef00", "object at 0x"),
])  # fmt: skip
def test_two_names_of_one_operator_are_one(one, two, name):
    assert stable_operator(one) == stable_operator(two)
    if name:
        assert stable_operator(one) == name


@pytest.mark.parametrize("name", [
    "aten::mm", "aten::add.Tensor", "my_lib::facade", "triton_poi_fused_add_relu_0", "autograd::engine", "0",
    "aten::_foreach_add_.List", "Optimizer.step#AdamW.step", "deadbeef", "accumulate", "f2", "convolution_2d",
])  # fmt: skip
def test_what_tells_operators_apart_stays(name):
    assert stable_operator(name) == name


def test_a_function_is_the_users_function_whatever_dynamo_made_of_it():
    assert stable_function("torch_dynamo_resume_in_f_at_34") == "f"
    assert stable_function("torch_dynamo_resume_in_torch_dynamo_resume_in_f_at_5_at_7") == "f"
    assert stable_function("outer.<locals>.inner") == "outer.inner"
    assert compiled_function("torch_dynamo_resume_in_f_at_34") == "f after a graph break"
    assert compiled_function("f") == "f"
    assert stable_text("skipped torch_dynamo_resume_in_f_at_34 at 0x7f0012345678 (id 140234567890123)") == (
        "skipped f at 0x (id )"
    )


def test_directories_that_are_made_anew_and_cells_of_notebooks_are_not_in_a_path():
    assert stable_path("/tmp/tmpab12/job-7/train.py") == "train.py"
    assert stable_path("/private/var/folders/xy/T/abc/train.py") == "train.py"
    assert stable_path("/tmp/ipykernel_812/1234.py") == stable_path("/tmp/ipykernel_9/77.py") == "notebook"
    assert stable_path("<ipython-input-3-0a1b>") == "notebook"
    for path in ("train.py", "../src/model.py", "~/code/train.py", "torch/nn/modules/linear.py"):
        assert stable_path(path) == path


@given(st.from_regex(r"[a-z_:. A-Z]{0,40}", fullmatch=True))
def test_words_stay_as_they_are(text):
    assert stable_text(text) == text


@given(st.text(max_size=2000))
def test_any_text_is_bounded(text):
    assert len(stable_text(text)) <= MOST_FIELD and len(stable_function(text)) <= MOST_FIELD


@pytest.mark.parametrize(("one", "two"), [
    ("f.<locals>.<listcomp>", "f"), ("f.<locals>.<dictcomp>.<locals>.<setcomp>", "f"), ("<listcomp>", "<module>"),
    ("Net.forward.<locals>.<genexpr>", "Net.forward"),
])  # fmt: skip
def test_a_comprehension_is_part_of_the_function_around_it(one, two):
    assert stable_function(one) == stable_function(two) == two
    assert stable_function("f.<locals>.<lambda>") == "f.<lambda>" and stable_function("") == ""
