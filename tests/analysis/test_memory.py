"""Memory: blocks, categories, the peak and leaks of hand-built rows whose sums can be worked out on paper."""

from __future__ import annotations

import json

import numpy as np
import pytest
import synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.memory_blocks import BEFORE, blocks
from neuron_explorer.analysis.memory_categories import CATEGORIES, categories
from neuron_explorer.analysis.memory_leaks import leaks
from neuron_explorer.analysis.memory_places import by_line
from neuron_explorer.analysis.memory_state import alive_at, moment, peak, position_at, timeline, window
from neuron_explorer.analysis.questions import ask
from neuron_explorer.trace.store import load

SEEN = {"memory": {"observed": True, "reason": ""}, "steps": {"observed": True, "reason": ""}}


def word(name, at, number, amount, device="cpu", **columns):
    """A row about memory."""
    detail = json.dumps(columns.pop("detail", {"bytes": amount}))
    return synthetic.event(
        name, at, 0, kind="memory", correlation=number, detail=detail, device=device, **{"phase": "other"} | columns
    )


@pytest.fixture
def opened(tmp_path):
    """A function: the trace of these events, open."""
    traces = []

    def write(events, steps=(), shuffle=None, **meta):
        document = synthetic.metadata(duration_ns=1000, capabilities=SEEN, **meta)
        rows = synthetic.rows_of(list(events), list(steps))
        if shuffle is not None:
            rows = [rows[i] for i in shuffle]
        path = synthetic.write(tmp_path / f"t{len(traces)}.parquet", rows, document)
        traces.append(load(path))
        return traces[-1]

    yield write
    for trace in traces:
        trace.close()


def here(line, file="a.py", **more):
    return {"file": file, "line": line, "function": "f", **more}


TRAINING = [
    word("found", 1, 1, 100),
    word("parameter", 1, 1, 100),
    word("allocate", 10, 2, 50, **here(3, phase="forward", module="layers.0")),
    word("allocate", 20, 3, 70, **here(4, phase="forward", module="layers.1")),
    word("release", 30, 3, -70, **here(4, phase="forward")),
    word("allocate", 40, 4, 30, **here(3, phase="backward", module="layers.0")),
    word("allocate", 45, 5, 40, **here(3, phase="backward", module="layers.0")),
    word("release", 50, 5, -40, phase="backward"),
    word("release", 55, 2, -50, **here(6, phase="backward")),
    word("gradient", 60, 4, 30),
    word("allocate", 70, 6, 25, **here(9, phase="optimizer")),
    word("allocate", 75, 7, 5, **here(9, phase="optimizer")),
    word("release", 78, 7, -5, **here(9, phase="optimizer")),
    word("release", 80, 4, -30, **here(10)),
    word("allocate", 90, 8, 11, **here(12)),
    word("release", 110, 8, -11, **here(12)),
]
STEPS = [(0, 100, "warmup"), (100, 100, "steady")]


def test_a_step_of_training_on_paper(opened):
    trace = opened(TRAINING, STEPS)
    found = blocks(trace)
    assert len(found) == 8 and found.odd == 0
    top = peak(trace, 0, window(trace, Filter()))
    # 100 + 50 + 70 at 20, and 100 + 50 + 30 + 40 at 45: the first of the two.
    assert (top.at, top.bytes) == (20, 220)
    members = alive_at(found, top.position, 0)
    shares = by_line(found, members, categories(trace)[0])
    assert [(s.file, s.line, s.bytes) for s in shares] == [("", -1, 100), ("a.py", 4, 70), ("a.py", 3, 50)]
    kind = [CATEGORIES[c] for c in categories(trace)[0]]
    by_bytes = dict(zip(found.bytes.tolist(), kind, strict=True))
    assert by_bytes == {
        100: "parameters", 50: "activations", 70: "temporaries", 30: "gradients", 40: "temporaries",
        25: "optimizer state", 5: "temporaries", 11: "inputs and other",
    }  # fmt: skip
    exact = dict(zip(found.bytes.tolist(), categories(trace)[1].tolist(), strict=True))
    assert {b for b, sure in exact.items() if sure} == {100, 30}


def test_report_tables_add_up_to_the_peak(opened):
    trace = opened(TRAINING, STEPS)
    answer = ask(trace, "memory", Ask(top=2))
    for name in ("memory_categories", "memory_lines", "memory_modules"):
        table = answer.table(name)
        assert sum(table.column("bytes")) + table.rest.get("bytes", 0) == 220
    device = answer.table("memory_devices").records()[0]
    assert (device["peak"], device["peak_at_ns"], device["peak_step"]) == (220, 20, 0)
    assert (device["at_start"], device["at_end"], device["allocations"]) == (100, 125, 7)
    assert answer.headline.startswith("peak of cpu: 220 B at 20 ns")
    at = ask(trace, "memory", Ask(target="60ns"))
    assert sum(at.table("memory_lines").column("bytes")) == 130
    assert "alive 60 ns after the start" in at.scope


def test_lines_tell_who_allocates_and_who_releases(opened):
    rows = ask(opened(TRAINING, STEPS), "memory-lines").table("memory_allocations").records()
    first = rows[0]
    assert (first["place"], first["allocated"], first["allocations"]) == ("a.py:3", 120, 3)
    assert (first["largest"], first["released_by"], first["life_ns"]) == (50, "a.py:6", 40)
    assert first["per_step"] == 60
    assert sum(r["allocated"] for r in rows) == 50 + 70 + 30 + 40 + 25 + 5 + 11


def test_a_range_of_steps_has_its_own_peak(opened):
    trace = opened(TRAINING, STEPS)
    answer = ask(trace, "memory", Ask(Filter("1-1")))
    assert answer.table("memory_devices").records()[0]["peak"] == 136
    assert answer.scope.startswith("step 1")
    with pytest.raises(ValueError, match="no step in 7-9"):
        ask(trace, "memory", Ask(Filter("7-9")))


def test_a_list_that_keeps_a_tensor_of_each_step_is_a_leak(opened):
    events, steps, number = [], [], 0
    for step in range(12):
        at = step * 100
        steps.append((at, 100, "steady"))
        for line, held, size in ((5, True, 8), (6, False, 1000)):
            number += 1
            events.append(word("allocate", at + line, number, size, **here(line)))
            if not held:
                events.append(word("release", at + 50, number, -size, **here(line)))
        # A buffer of the last four batches grows at first and then does not.
        events.append(word("allocate", at + 60, 1000 + step, 500, **here(7)))
        if step >= 4:
            events.append(word("release", at + 60, 1000 + step - 4, -500, **here(7)))
    found = leaks(opened(events, steps), (0,)).rows
    assert [(x.share.file, x.share.line) for x in found] == [("a.py", 5)]
    assert (found[0].share.blocks, found[0].steps, found[0].first, found[0].last) == (10, 10, 0, 9)
    assert found[0].per_step == 8
    few = leaks(opened(events[:8], steps[:3]), (0,))
    assert not few.rows and "there are 3" in few.reason


def test_accumulated_gradients_are_one_block(opened):
    events = [
        word("allocate", 10, 1, 64, **here(3, phase="backward")),  # stays: the gradient
        word("allocate", 20, 2, 64, **here(3, phase="backward")),
        word("release", 22, 2, -64, phase="backward"),  # added to it
        word("gradient", 30, 1, 64),
        word("release", 40, 1, -64, **here(9)),
    ]
    trace = opened(events, [(0, 50, "steady")])
    assert [CATEGORIES[c] for c in categories(trace)[0]] == ["gradients", "temporaries"]
    assert peak(trace, 0, window(trace, Filter())).bytes == 128


def test_a_block_kept_from_backward_that_is_no_gradient(opened):
    events = [
        word("allocate", 10, 1, 64, **here(3, phase="backward")),
        word("allocate", 12, 2, 32, **here(4, phase="backward")),
        word("gradient", 30, 1, 64),
    ]
    assert [CATEGORIES[c] for c in categories(opened(events))[0]] == ["gradients", "inputs and other"]


def test_a_device_that_tells_its_level(opened):
    where = {"device": "cuda:0"}
    level = {"allocated": 160, "reserved": 200}
    events = [
        word("allocate", 10, 1, 60, **where),
        word("level", 10, -1, 0, detail=level, **where),
        word("release", 20, -1, -30, **where),  # from before the recording
        word("allocate", 30, 2, 50, **where),
        word("level", 30, -1, 0, detail={"allocated": 180, "reserved": 400}, **where),
        word("release", 40, 1, -60, **where),
    ]
    trace = opened(events)
    found = blocks(trace)
    assert sorted(found.bytes[found.born == BEFORE].tolist()) == [30, 70]
    record = ask(trace, "memory").table("memory_devices").records()[0]
    assert (record["peak"], record["reserved"], record["unused"]) == (180, 400, pytest.approx(0.55))
    assert record["at_end"] == 120


def test_rows_that_make_no_sense_are_counted_and_not_used(opened):
    events = [
        word("allocate", 1, 1, 10),
        word("allocate", 2, 2, -10),
        word("release", 3, 1, 10),
        word("allocate", 4, 3, 1 << 50),
        word("allocate", 5, 4, 10, detail={"bytes": "much"}),
        word("allocate", 6, 5, 10, detail=[1]),
        word("nonsense", 7, 6, 10),
        word("parameter", 8, 77, 10),
    ]
    trace = opened(events)
    assert (len(blocks(trace)), blocks(trace).odd) == (1, 6)
    assert "6 rows about memory" in " ".join(ask(trace, "memory").notes)


def test_blocks_that_are_not_told_apart_are_left_out(opened):
    trace = opened([word("allocate", 1, -1, 10), word("release", 2, -1, -10), word("release", 3, -1, -99)])
    assert (len(blocks(trace)), blocks(trace).nameless, blocks(trace).odd) == (0, 3, 0)
    answer = ask(trace, "memory")
    assert answer.table("memory_devices").records()[0]["peak"] == 0
    assert "3 allocations and releases left out" in " ".join(answer.notes)


def test_without_rows_the_answer_says_why(opened):
    trace = opened([], capabilities_note=1)
    assert ask(trace, "memory").headline == "nothing was allocated"
    trace.metadata["capabilities"] = {"memory": {"observed": False, "reason": "recorded with memory=False"}}
    for name in ("memory", "memory-timeline", "memory-lines"):
        answer = ask(trace, name)
        assert answer.headline == "memory: not observed"
        assert answer.missing[0].reason == "recorded with memory=False" and "--memory" in answer.missing[0].how


@pytest.mark.parametrize(("text", "ns"), [("", None), ("12.5ms", 12_500_000), ("3 s", 3 * 10**9), ("7us", 7000)])
def test_moments(text, ns):
    assert moment(text) == ns


@pytest.mark.parametrize("text", ["12", "ms", "-1ms", "1e9s", "1" * 40 + "s"])
def test_what_is_no_moment(text):
    with pytest.raises(ValueError, match="moment"):
        moment(text)


@st.composite
def lives(draw):
    """Blocks: (born, died or None, bytes, line)."""
    count = draw(st.integers(1, 30))
    return [
        (b := draw(st.integers(0, 60)), draw(st.one_of(st.none(), st.integers(b + 1, 70))), draw(st.integers(1, 50)),
         draw(st.integers(1, 4)))
        for _ in range(count)
    ]  # fmt: skip


def events_of(blocks_):
    events = []
    for number, (born, died, size, line) in enumerate(blocks_, 1):
        events.append(word("allocate", born, number, size, **here(line, phase=["forward", "backward"][line % 2])))
        if died is not None:
            events.append(word("release", died, number, -size))
    return events


@settings(max_examples=25, deadline=None)
@given(lives(), st.randoms(use_true_random=False))
def test_alive_is_what_was_allocated_and_not_released(tmp_path_factory, blocks_, random):
    events = events_of(blocks_)
    rows = synthetic.rows_of(events)
    document = synthetic.metadata(duration_ns=100, capabilities=SEEN)
    folder = tmp_path_factory.mktemp("lives")
    order = list(range(len(rows)))
    random.shuffle(order)
    with (
        load(synthetic.write(folder / "a.parquet", rows, document)) as trace,
        load(synthetic.write(folder / "b.parquet", [rows[i] for i in order], document)) as shuffled,
    ):
        found, span = blocks(trace), window(trace, Filter())
        starts = sorted(found.rows.start.tolist())
        for at in set(starts):
            expected = sum(b[2] for b in blocks_ if b[0] <= at and (b[1] is None or b[1] > at))
            members = alive_at(found, position_at(found, at), 0)
            assert found.bytes[members].sum() == expected
        line = timeline(trace, 0, span)
        assert (line.bytes >= 0).all()
        assert line.total[-1] == sum(b[2] for b in blocks_ if b[1] is None)
        top = peak(trace, 0, span)
        assert top.bytes == line.total.max()
        parts = by_line(found, alive_at(found, top.position, 0), categories(trace)[0])
        assert sum(s.bytes for s in parts) == top.bytes
        # Few points keep the peak.
        assert timeline(trace, 0, span, 5).total.max() == top.bytes
        # Rows may come in any order.
        assert peak(shuffled, 0, span) == top
        assert np.array_equal(timeline(shuffled, 0, span).bytes, line.bytes)
        # Time may be shifted.
        moved = [row | {"start": row["start"] + 1000} for row in rows]
        with load(synthetic.write(folder / "c.parquet", moved, document)) as later:
            far = peak(later, 0, window(later, Filter()))
            assert (far.bytes, far.at) == (top.bytes, top.at + 1000)
