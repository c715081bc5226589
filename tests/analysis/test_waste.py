"""What runs for nothing, on traces and on a program whose waste is known line by line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace

from neuron_explorer.analysis.questions import ask
from neuron_explorer.analysis.waste import KINDS, waste

STEPS = [(0, 1000, "warmup"), (1000, 1000, "steady"), (2000, 1000, "steady")]


def tensors(*inputs):
    """Detail of an operator whose inputs are (storage, version)."""
    return json.dumps(
        {"tensors": [[i, 0, storage, version, 0] for i, (storage, version) in enumerate(inputs)]},
        separators=(",", ":"),
    )


def op(name, start, duration, *children, line=1, inputs=(), **more):
    more.setdefault("shapes", "[[4,4]]")
    more.setdefault("dtypes", '["float32"]')
    detail = {"detail": tensors(*inputs)} if inputs else {}
    return event(name, start, duration, *children, file="m.py", line=line, function="f", **{**detail, **more})


def found(events, period="auto"):
    return {(w.kind, w.line): w for w in waste(memory_trace(events, STEPS), period).found}


def test_the_same_operator_on_the_same_contents_is_a_repeat_and_its_first_run_is_not_counted():
    events = [op("aten::mm", 1100 + 100 * i, 10 + i, line=5, inputs=((7, 2), (8, 2))) for i in range(3)]
    events.append(op("aten::mm", 2100, 50, line=5, inputs=((7, 2), (8, 2))))
    (only,) = found(events).values()
    assert (only.kind, only.events, only.time_ns, only.certainty) == ("recomputed", 2, 11 + 12, "exact")
    assert only.per_step == 1.0


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"inputs": ((7, 3), (8, 2))}, id="written in between"),
        pytest.param({"inputs": ((9, 2), (8, 2))}, id="another storage"),
        pytest.param({"inputs": ((7, 2), (8, 2)), "shapes": "[[2,4]]"}, id="another view"),
        pytest.param({"inputs": ((7, 2), (8, 2)), "phase": "recompute"}, id="activation checkpointing"),
        pytest.param({}, id="tensors not recorded"),
    ],
)
def test_what_may_differ_is_no_repeat(second):
    assert not found([op("aten::mm", 1100, 10, inputs=((7, 2), (8, 2))), op("aten::mm", 1200, 10, **second)])


@pytest.mark.parametrize("name", ["aten::rand_like", "aten::bernoulli_.float", "aten::native_dropout",
                                  "aten::add_.Tensor", "aten::view", "aten::transpose.int"])  # fmt: skip
def test_random_numbers_writes_and_views_are_no_repeats(name):
    assert not found([op(name, 1100 + 100 * i, 10, inputs=((7, 2),)) for i in range(2)])


def test_a_repeat_of_what_torch_never_wrote_is_only_likely():
    events = [op("aten::_to_copy", 1100 + 100 * i, 10, line=3, inputs=((7, 0),)) for i in range(2)]
    assert found(events)["repeated_copy", 3].certainty == "likely"


def cast(start, source, to, line, stored=()):
    """A cast as torch dispatches it: ``_to_copy`` calls ``copy_`` with (result, source)."""
    inner = op("aten::copy_", start + 1, 5, line=line, dtypes=f'["{to}","{source}",null]',
               inputs=tuple((s, 0) for s in stored))  # fmt: skip
    return op("aten::_to_copy", start, 10, inner, line=line, dtypes=f'["{source}"]')


def test_a_cast_back_of_the_cast_is_a_round_trip_and_names_both_lines():
    events = [cast(1100, "float32", "bfloat16", 3, (20, 10)), cast(1200, "bfloat16", "float32", 4, (30, 20))]
    result = found(events)
    assert {key: (w.events, w.time_ns, w.certainty) for key, w in result.items()} == {
        ("dtype_round_trip", 3): (1, 10, "exact"), ("dtype_round_trip", 4): (1, 10, "exact"),
    }  # fmt: skip


def test_casts_of_unrelated_tensors_are_no_round_trip_where_tensors_are_known_and_likely_where_not():
    pair = ("float32", "bfloat16"), ("bfloat16", "float32")
    known = [cast(1100, *pair[0], 3, (20, 10)), cast(1200, *pair[1], 4, (30, 25))]
    assert not found(known)
    unknown = found([cast(1100, *pair[0], 3), cast(1200, *pair[1], 4)])
    assert {w.certainty for w in unknown.values()} == {"likely"} and len(unknown) == 2
    assert not found([cast(1100, *pair[1], 3), cast(1200, *pair[1], 4)])
    assert not found([cast(1100, *pair[0], 3), cast(2200, *pair[1], 4)]), "in another step"


def test_a_copy_to_the_host_and_back_is_ping_pong_and_bytes_are_counted():
    def moved(start, direction, size, line):
        return event("aten::_copy_from", start, 20, kind="copy", file="m.py", line=line,
                     detail=json.dumps({"direction": direction, "bytes": size}))  # fmt: skip

    result = found([moved(1100, "device_to_host", 64, 3), moved(1200, "host_to_device", 64, 4),
                    moved(1300, "host_to_device", 64, 5), moved(1400, "device_to_host", 128, 6)])  # fmt: skip
    assert {key: (w.events, w.bytes) for key, w in result.items()} == {("ping_pong", 3): (1, 64),
                                                                        ("ping_pong", 4): (1, 64)}  # fmt: skip


def test_only_a_contiguous_that_copies_counts():
    copying = op("aten::contiguous", 1100, 30, op("aten::clone", 1105, 20, line=3, shapes="[[4,4],null]",
                 dtypes='["float32",null]'), line=3)  # fmt: skip
    result = found([copying, op("aten::contiguous", 1200, 30, line=4), op("aten::clone", 1300, 20, line=5)])
    assert {key: (w.events, w.time_ns, w.bytes) for key, w in result.items()} == {("layout_copy", 3): (1, 20, 128)}


def test_reads_of_values_are_told_apart_by_how_often_a_step_makes_them():
    reads = [op("aten::item", s + 10 * i, 5, op("aten::_local_scalar_dense", s + 10 * i + 1, 3, line=3), line=3)
             for s in (1100, 2100) for i in range(4)]  # fmt: skip
    once = [op("aten::item", s, 5, op("aten::_local_scalar_dense", s + 1, 3, line=9), line=9) for s in (1500, 2500)]
    result = found(reads + once)
    assert {key: (w.events, w.per_step) for key, w in result.items()} == {
        ("sync_in_loop", 3): (8, 4.0), ("item_in_step", 9): (2, 1.0),
    }  # fmt: skip


def test_an_optimizer_is_only_named_where_it_launches_many_operators_one_by_one():
    def step(start, *children):
        return event("Optimizer.step#SGD.step", start, 400, *children, kind="range", file="m.py", line=7)

    many = step(1100, *(op("aten::add_.Tensor", 1101 + 10 * i, 5, line=7) for i in range(25)))
    few = step(1100, *(op("aten::add_.Tensor", 1101 + 10 * i, 5, line=7) for i in range(3)))
    listed = step(1100, op("aten::_foreach_add_.List", 1101, 5, line=7), *many.children[1:])
    assert found([many])["no_foreach", 7].events == 25
    assert not found([few]) and not found([listed])


def test_zeros_outside_zero_grad_are_the_programs_own():
    inside = event("Optimizer.zero_grad#SGD.zero_grad", 1100, 50, op("aten::zero_", 1101, 5, line=8), kind="range")
    result = found([inside, op("aten::zero_", 1300, 5, line=9)])
    assert list(result) == [("zero_fill", 8)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["aten::mm", "aten::_to_copy", "aten::add.Tensor"]), st.integers(1, 3),
                          st.integers(1, 40)), max_size=12), st.randoms())  # fmt: skip
def test_no_finding_takes_longer_than_its_events_and_order_does_not_matter(calls, random):
    events = [op(name, 1001 + 60 * i, duration, line=line, inputs=((line, 1),))
              for i, (name, line, duration) in enumerate(calls)]  # fmt: skip
    result = found(events)
    spent = sum(duration for _, _, duration in calls)
    assert sum(w.time_ns for w in result.values()) <= spent
    shuffled = list(events)
    random.shuffle(shuffled)
    again = found(shuffled)
    assert {k: (w.events, w.time_ns) for k, w in again.items()} == {k: (w.events, w.time_ns) for k, w in result.items()}


def test_each_kind_says_what_to_do_and_nothing_found_is_an_answer():
    answer = ask(memory_trace([], []), "waste")
    assert answer.headline == "nothing that runs twice or for nothing was found"
    assert any("tensors=True" in m.how for m in answer.missing)
    assert all(kind.text and kind.action for kind in KINDS.values())


PROGRAM = '''
def run(torch, weights, x, optimizer):
    h = torch.nn.functional.linear(x, weights[0])
    w = weights[0].to(torch.bfloat16)
    w = weights[0].to(torch.bfloat16)  # again
    back = h.to(torch.bfloat16).to(torch.float32)  # trip
    flat = h.t().contiguous()  # layout
    for i in range(3):
        h[i, 0].item()  # loop
    loss = h.sum() + sum(w.sum() for w in weights[1:])
    loss.backward()
    optimizer.step()  # update
    optimizer.zero_grad(set_to_none=False)  # zeros
'''


def test_a_programs_waste_is_found_at_its_lines(tmp_path):
    torch = pytest.importorskip("torch")
    import neuron_explorer

    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    space: dict = {}
    exec(compile(PROGRAM, str(path), "exec"), space)
    weights = [torch.ones(8, 8, requires_grad=True) for _ in range(24)]
    x, optimizer = torch.ones(8, 8), torch.optim.SGD(weights, lr=0.1, foreach=False)
    space["run"](torch, weights, x, optimizer)
    with neuron_explorer.profile(tmp_path / "t.parquet", tensors=True, user_code=[str(tmp_path)]) as prof:
        for _ in range(3):
            space["run"](torch, weights, x, optimizer)
            prof.step()
    where = {text.split("# ")[1]: i for i, text in enumerate(PROGRAM.split("\n"), 1) if "# " in text}
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        seen = {(w.kind, w.line): w for w in waste(trace, "all").found}
    assert seen["repeated_copy", where["again"]].events == 3
    assert seen["repeated_copy", where["again"]].certainty == "exact"
    assert seen["dtype_round_trip", where["trip"]].events == 6
    assert seen["layout_copy", where["layout"]].events == 3
    assert seen["sync_in_loop", where["loop"]].per_step == 3
    assert seen["no_foreach", where["update"]].events >= 24 * 3
    assert seen["zero_fill", where["zeros"]].events == 24 * 3
    assert ("item_in_step", where["loop"]) not in seen
