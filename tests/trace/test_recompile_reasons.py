"""Reading why Dynamo compiled again: texts of three versions of torch, older forms, and noise."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.trace.compiles import CAUSES, Place, Reason
from neuron_explorer.trace.guard_names import tensor_of, user_name
from neuron_explorer.trace.recompile_reasons import closest, parse_reason, with_actual

CORPUS = json.loads(Path(__file__).with_name("recompile_reasons.json").read_text())


def said(reason: Reason) -> dict[str, str]:
    return {k: getattr(reason, k) for k in ("cause", "source", "expected", "actual")}


@pytest.mark.parametrize("row", CORPUS, ids=[f"{r['name']}-{r['torch']}" for r in CORPUS])
def test_what_torch_says(row):
    reason = parse_reason(row["text"])
    assert said(reason) == row["want"]
    assert reason.text == row["text"]
    assert (reason.guard and reason.guard in row["text"]) or reason.cause == "no_reason"
    assert reason.entry.count("/") == 1


def test_the_corpus_has_three_versions_and_every_class_but_one():
    assert {r["torch"].rsplit(".", 1)[0] for r in CORPUS} >= {"2.9", "2.13", "2.14"}
    assert {r["want"]["cause"] for r in CORPUS} == set(CAUSES)


OLDER = [
    ("tensor 'L['x']' size mismatch at index 0. expected 4, actual 5", "size", "x.shape[0]", "4", "5"),
    ("0/0: tensor 'L['x']' dtype mismatch. expected Float, actual Half", "dtype", "x", "float32", "float16"),
    ("L['x'].size()[0] == 4", "size", "x.shape[0]", "4", ""),
    ("L['x'].stride()[1] == 1", "stride", "x.stride(1)", "1", ""),
    ("L['x'].storage_offset() == 0", "stride", "x.storage_offset()", "0", ""),
    ("Ne(L['x'].size()[0], 1)", "size", "x.shape[0]", "x.shape[0] != 1", ""),
    ("Eq(L['x'].size()[0], L['y'].size()[0])", "size", "x.shape[0]", "x.shape[0] == y.shape[0]", ""),
    ("Ne(s0, 1)", "size", "", "s0 != 1", ""),
    ("___check_obj_id(L['self'], 140234)", "object_identity", "self", "one object", "another object"),
    ("___check_obj_id(L['mask'], 94001), type=<class 'NoneType'>", "python_value", "mask", "None", "not None"),
    ("___check_type_id(L['x'], 9400)", "object_identity", "x", "one type", "another type"),
    ("___check_type_id(L['n'], 9400), type=<class 'int'>", "python_value", "n", "type int", "another type"),
    ("___check_type_id(G['f'], 9400)", "global_value", "f", "one type", "another type"),
    ("L['self'].training == True", "module_state", "self.training", "True", ""),
    ("L['self']._modules['net']._modules['0']._parameters['w'] is not None", "module_state", "self.net[0].w",
     "not None", "None"),
    ("len(L['self']._modules['layers']._modules) == 2", "module_state", "self.layers", "2 items", ""),
    ("___is_grad_enabled()", "grad_mode", "grad mode", "", ""),
    ("not ___is_grad_enabled()", "grad_mode", "grad mode", "", ""),
    ("___are_deterministic_algorithms_enabled()", "grad_mode", "deterministic algorithms", "", ""),
    ("utils_device.CURRENT_DEVICE == None", "grad_mode", "default device", "None", ""),
    ("torch.autograd.forward_ad._current_level == -1", "grad_mode", "forward-mode AD level", "-1", ""),
    ("___check_global_state() against {'grad_mode': True}", "grad_mode", "global state of torch", "", ""),
    ("GLOBAL_STATE changed: grad_mode autocast(cuda)_dtype ", "grad_mode", "grad mode, autocast on cuda", "", ""),
    ("L['a'] is L['b']", "object_identity", "a", "the same object as b", "another object than b"),
    ("L['a'] is not L['b']", "object_identity", "a", "another object than b", "the same object as b"),
    ("not L['xs']", "python_value", "xs", "0 items", ""),
    ("list(dict.keys(L['kw'])) == ['a', 'b']", "python_value", "kw", "keys ['a', 'b']", ""),
    ("list(L['kw'].keys()) == ['a']", "python_value", "kw", "keys ['a']", ""),
    ("___dict_version(L['d']) == 7", "python_value", "d", "an unchanged dictionary", "a changed one"),
    ("KeyError on L['d']['k']", "python_value", "d['k']", "present", "absent"),
    ("L['mode'] == 'a == b'", "python_value", "mode", "'a == b'", ""),
    ("L['fn'].__code__ == <code object f at 0x7f>", "python_value", "fn", "<code object f at 0x7f>", ""),
    ("str(L['x'].dtype) == 'torch.float32'", "python_value", "str(x.dtype)", "'torch.float32'", ""),
    ("G['__import_torch_dot_nn_dot_functional'].x == 3", "global_value", "torch.nn.functional.x", "3", ""),
    ("G['__builtins_dict___0']['len'] == 3", "global_value", "len", "3", ""),
    ("tensor 'L['x']' Tensor device index mismatch. Expected device index to be 0, actual 1", "device", "x",
     "index 0", "index 1"),
    ("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(PrivateUse1, BackendSelect, ADInplaceOrView, "
     "AutogradPrivateUse1), actual DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)", "device", "x",
     "neuron", "cpu"),
    ("tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU),"
     " actual DispatchKeySet(CPU, BackendSelect)", "grad_mode", "x", "an ordinary tensor",
     "a tensor made in inference mode"),
    ("Cache line invalidated because L['module'] got deallocated", "object_identity", "module",
     "the object that was compiled for", "it was deleted"),
    ("Duplicate tensor found where not expected! tensor 'y'should not alias to anything, but is aliased",
     "object_identity", "y", "tensors of their own", "the same tensor as another"),
    ("Unable to find recompilation reasons", "no_reason", "", "", ""),
    ("Unexpected recompilation: runtime guards failed even though they passed", "no_reason", "", "", ""),
    ("", "no_reason", "", "", ""),
    ("3/1: ", "no_reason", "", "", ""),
    ("None: ", "no_reason", "", "", ""),
    ("the moon is in the seventh house", "other", "", "", ""),
    ("___some_new_guard(L['x'], 3)", "other", "", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause", "source", "expected", "actual"), OLDER)
def test_older_and_other_forms(text, cause, source, expected, actual):
    assert said(parse_reason(text)) == {"cause": cause, "source": source, "expected": expected, "actual": actual}


def test_an_unknown_form_is_shown_whole():
    text = "0/3: L['x'] frobnicates L['y'] with " + "z" * 5000
    reason = parse_reason(text)
    assert reason.cause == "other"
    assert reason.guard == text.removeprefix("0/3: ")
    assert reason.entry == "0/3"


@pytest.mark.parametrize(
    ("prefix", "entry"),
    [("0/0: ", "0/0"), ("12/3_1: ", "12/3_1"), ("!0/0/1: ", "!0/0/1"), ("- 0/1: ", "0/1"), ("[0/1]: ", "0/1")],
)
def test_the_entry_that_could_not_be_used(prefix, entry):
    reason = parse_reason(prefix + "L['n'] == 3")
    assert (reason.entry, reason.source, reason.expected) == (entry, "n", "3")


def test_the_line_is_the_users_where_the_guard_is_in_a_library():
    text = (
        "0/0: self._modules['drop'].training == True   # return F.dropout(x)  # nn/modules/dropout.py:73 in forward\n"
        "User stack trace:\n"
        '  File "/project/model.py", line 20, in forward\n    return self.drop(x)\n'
        '  File "/venv/lib/python3.11/site-packages/torch/nn/modules/dropout.py", line 73, in forward\n    return x'
    )
    assert parse_reason(text).place == Place("/project/model.py", 20, "forward")
    assert parse_reason(text.partition("\nUser")[0]).place == Place("nn/modules/dropout.py", 73, "forward")


def test_an_attribute_of_self_is_module_state_only_in_a_module():
    guard = "self.level == 1    # return x * self.level  # project/a.py:3 in {}"
    assert parse_reason(guard.format("forward")).cause == "module_state"
    assert parse_reason(guard.format("step")).cause == "python_value"


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("L['x']", "x"),
        ('L["x"]', "x"),
        ("L['self']._modules['layers']._modules['0']._parameters['weight']", "self.layers[0].weight"),
        ("L['self']._modules['a-b']", "self['a-b']"),
        ("G['SCALE']", "SCALE"),
        ("G['cfg']['depth']", "cfg['depth']"),
        ("G['___unnamed_scope_1402_c114']['settings'].level", "settings.level"),
        ("___from_numpy(L['a'])", "a"),
        ("___from_numpy(L['d']['k'])", "d['k']"),
        ("L['x'].size()[1]", "x.shape[1]"),
        ("L['x'].stride()[0]", "x.stride(0)"),
        ("dict.__getitem__(L['d'], 'k')", "d['k']"),
        ("L['self'].__dict__['n']", "self.n"),
        ("L['self']._orig_mod.scale", "self.scale"),
    ],
)
def test_names_are_the_users(expression, name):
    assert user_name(expression) == name


@pytest.mark.parametrize(
    ("source", "tensor"), [("x.shape[1]", "x"), ("a.b.stride(0)", "a.b"), ("x", "x"), ("xs[1].shape[0]", "xs[1]")]
)
def test_the_tensor_of_a_source(source, tensor):
    assert tensor_of(source) == tensor


# --- the closest entry


def test_the_entry_that_nearly_fitted():
    texts = [
        "0/0: tensor 'x' size mismatch at index 1. expected 8, actual 9",
        "0/1: tensor 'x' dtype mismatch. expected Double, actual Float",
        "0/2: GLOBAL_STATE changed: grad_mode ",
    ]
    assert closest([parse_reason(t) for t in texts]) == 0
    assert closest([parse_reason(t) for t in reversed(texts)]) == 2


def test_a_condition_on_a_dynamic_size_is_closer_than_the_size_before():
    texts = ["0/0: tensor 'x' size mismatch at index 0. expected 4, actual 1", "0/1: 2 <= x.size()[0]"]
    assert closest([parse_reason(t) for t in texts]) == 1


def test_of_equals_the_newest_entry():
    texts = [f"0/{n}: L['n'] == {n}" for n in (0, 10, 9)]
    assert closest([parse_reason(t) for t in texts]) == 1


def test_no_reasons():
    assert closest([]) == -1
    assert closest([parse_reason("")]) == 0


# --- the found value from the new compilation's guards


@pytest.mark.parametrize(
    ("text", "guards", "actual"),
    [
        ("L['n'] == 3", ["L['m'] == 9", "L['n'] == 4   # return x * n  # a.py:3 in f"], "4"),
        ("L['n'] == 3", ["L['n'] == 3"], ""),
        ("L['n'] == 3", [], ""),
        ("G['SCALE'] == 2.0", ["G['SCALE'] == 3.0"], "3.0"),
        (
            "2 <= L['x'].size()[0]",
            ["check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
             "size=[1, 3], stride=[3, 1])"],
            "1",
        ),
        (
            "2 <= L['x'].size()[0]",
            ["check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
             "size=[None, 3], stride=[3, 1])"],
            "",
        ),
        # The guard on a type says nothing of a length, nor of another value of the same type.
        ("len(L['xs']) == 2", ["___check_type_id(L['xs'], 9), type=<class 'tuple'>", "len(L['xs']) == 3"], "3 items"),
        ("len(L['xs']) == 2", ["___check_type_id(L['xs'], 9), type=<class 'tuple'>"], ""),
        ("L['a'] == 1.0", ["___check_type_id(L['a'], 9), type=<class 'float'>"], ""),
        ("L['a'] == 1.0", ["___check_type_id(L['a'], 9), type=<class 'int'>"], "type int"),
        ("___check_type_id(L['xs'], 8), type=<class 'list'>",
         ["len(L['xs']) == 2", "___check_type_id(L['xs'], 9), type=<class 'tuple'>"], "type tuple"),
    ],
)  # fmt: skip
def test_the_found_value(text, guards, actual):
    assert with_actual(parse_reason(text), guards).actual == actual


AUTOCAST = "autocast(cpu)_enabled"


def test_the_nearest_of_global_states_is_the_one_with_the_fewest_differences():
    texts = [f"0/{n}: GLOBAL_STATE changed: {what} " for n, what in enumerate((AUTOCAST, f"grad_mode {AUTOCAST}"))]
    assert closest([parse_reason(t) for t in texts]) == 0
    assert closest([parse_reason(t) for t in reversed(texts)]) == 1


def test_a_found_value_is_kept():
    reason = parse_reason("tensor 'x' size mismatch at index 0. expected 4, actual 5")
    assert with_actual(reason, ["L['x'].size()[0] == 6"]) is reason


# --- noise


FRAGMENTS = st.sampled_from(
    ["0/0: ", "tensor '", "' size mismatch at index ", "expected ", ", actual ", "L['x']", "G['y']", ".size()[0]",
     " == ", " is ", "not ", "len(", ")", "(", "[", "]", "'", '"', "\\", "# ", "\n", "User stack trace:\n",
     '  File "a", line 1, in f', "(HINT: ", "9" * 30, "1", "<=",
     "___check_obj_id(", "DispatchKeySet(", "GLOBAL_STATE changed: ", "\0", "é", "∞"]
)  # fmt: skip


@given(st.lists(FRAGMENTS, max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_never_raises(text):
    reason = parse_reason(text)
    assert reason.cause in CAUSES
    assert reason.text == text
    assert closest([reason, reason]) in (0, 1)
    with_actual(reason, [text])


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_never_raises_on_any_text(text):
    assert parse_reason(text).cause in CAUSES


@pytest.mark.parametrize(
    "text",
    ["L['x']" + "[0]" * 50_000, "(" * 100_000, "L['" * 50_000, "'" * 100_000, "a is " * 30_000, "x.size()[0]" * 20_000,
     "tensor '" + "a' " * 30_000, "(HINT: " * 20_000 + ")", "# a:1 in f " * 20_000, "dict(" * 30_000, "_" * 100_000,
     "list(dict.keys(" * 8_000, "1 == " * 30_000, "not " * 30_000, "___dict_contains(" * 8_000],
    ids=range(15),
)  # fmt: skip
def test_long_texts_take_no_time(text):
    began = time.perf_counter()
    reason = parse_reason(text)
    assert reason.text == text and reason.cause in CAUSES
    assert time.perf_counter() - began < 2
