"""Whose call led to a compilation."""

from __future__ import annotations

from neuron_explorer.trace.compile_detail import calls_of
from neuron_explorer.trace.compiles import Place

CALL = Place("train.py", 40, "main")


def test_a_function_has_been_called_where_it_was():
    callers = (Place("model.py", 7, "forward"), CALL)
    assert calls_of(Place("model.py", 3, "forward"), callers) == callers  # it calls itself


def test_what_goes_on_after_a_break_is_called_where_the_whole_function_is():
    callers = (Place("model.py", 7, "Model.forward"), CALL)
    assert calls_of(Place("model.py", 7, "Model.torch_dynamo_resume_in_forward_at_7"), callers) == [CALL]
    twice = (Place("model.py", 9, "torch_dynamo_resume_in_forward_at_7"), *callers)
    resumed = Place("model.py", 9, "torch_dynamo_resume_in_torch_dynamo_resume_in_forward_at_7_at_9")
    assert calls_of(resumed, twice) == [CALL]


def test_a_call_that_cannot_be_told_is_kept():
    callers = (Place("model.py", 7, "forward"),)
    assert calls_of(Place("model.py", 7, "torch_dynamo_resume_in_forward_at_7"), callers) == callers
    assert calls_of(Place("model.py", 7, "torch_dynamo_resume_in_forward_at_7"), ()) == ()
