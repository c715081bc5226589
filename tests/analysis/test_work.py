"""Which calls count, so that nothing counts twice; and the floor that the sums make."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace

from neuron_explorer.analysis.roofline import floor, floors, matrix_rate
from neuron_explorer.analysis.work import by_unit_and_dtype, step_work
from neuron_explorer.neuron.hardware import CHIPS, CORE_V2, Figure

STEPS = [(0, 1000, "warmup"), (1000, 1000, "steady"), (2000, 1000, "steady")]


def mm(start, m=3, k=4, n=5, duration=100, dtype="float32", **more):
    return event("aten::mm", start, duration, shapes=f"[[{m},{k}],[{k},{n}]]", dtypes=f'["{dtype}","{dtype}"]', **more)


def linear(start, *inside, duration=300):
    return event("aten::linear", start, duration, *inside, shapes="[[3,4],[5,4],null]",
                 dtypes='["float32","float32",null]', arguments="[null,null,null]")  # fmt: skip


def test_a_composite_leaves_the_word_to_its_parts():
    work = step_work(memory_trace([linear(1100, event("aten::t", 1110, 10, shapes="[[5,4]]", dtypes='["float32"]'),
                                          mm(1130))], STEPS))  # fmt: skip
    assert [(c.name, c.calls, c.cost.flops) for c in work.counted] == [("aten::mm", 1, 120)]


def test_a_composite_without_recorded_parts_counts_itself():
    work = step_work(memory_trace([linear(1100)], STEPS))
    assert [(c.name, c.cost.flops) for c in work.counted] == [("aten::linear", 120)]


def test_what_a_kernel_calls_is_how_the_cpu_does_it():
    inside = event("aten::copy_", 1110, 10, shapes="[[3,5],[3,5],null]", dtypes='["float32","float32",null]')
    outer = event("aten::addmm", 1100, 100, inside, shapes="[[5],[3,4],[4,5],null,null]",
                  dtypes='["float32","float32","float32",null,null]')  # fmt: skip
    work = step_work(memory_trace([outer], STEPS))
    assert [c.name for c in work.counted] == ["aten::addmm"]


def test_only_steady_steps_count_and_figures_are_theirs():
    work = step_work(memory_trace([mm(100), mm(1100), mm(2100), mm(2300)], STEPS))
    assert work.steps == 2
    assert work.flops == 3 * 120
    assert by_unit_and_dtype(work) == {("matrix", "float32"): 360}
    assert step_work(memory_trace([mm(100), mm(1100)], STEPS), "all").flops == 240


def test_an_operator_without_a_model_is_listed_with_its_share():
    odd = event("aten::_unique2", 1300, 300, event("aten::copy_", 1310, 10, shapes="[[4],[4]]",
                dtypes='["float32","float32"]'), shapes="[[4]]", dtypes='["float32"]')  # fmt: skip
    work = step_work(memory_trace([mm(1100), odd], STEPS))
    (row,) = work.unmodelled
    assert (row.name, row.calls, row.reason) == ("aten::_unique2", 1, "no model")
    assert row.share == pytest.approx(0.75)
    assert work.coverage == pytest.approx(0.25)
    assert (work.calls, work.modelled_calls) == (2, 1)


def test_a_custom_operator_speaks_only_when_nothing_in_it_does():
    custom = event("mylib::swish", 1100, 100, event("aten::silu", 1110, 50, shapes="[[8]]", dtypes='["float32"]'))
    alone = event("mylib::other", 1300, 100)
    work = step_work(memory_trace([custom, alone], STEPS))
    assert [c.name for c in work.counted] == ["aten::silu"]
    assert [u.name for u in work.unmodelled] == ["mylib::other"]


def test_a_compiled_region_without_operators_says_so():
    work = step_work(memory_trace([event("Torch-Compiled Region: 0/0", 1100, 100, kind="launch")], STEPS))
    (row,) = work.unmodelled
    assert "compiled region" in row.reason


def test_the_data_loader_is_no_work_of_the_device():
    wait = event("next", 1100, 200, mm(1110), kind="data_wait")
    assert step_work(memory_trace([wait, mm(1400)], STEPS)).calls == 1


def test_host_tensors_and_copies_to_them_are_left_out_where_the_trace_can_tell():
    neuron = {"type": "neuron", "name": "NeuronCore", "emulated": True}
    events = [
        event("aten::randn", 1000, 50, event("aten::normal_", 1005, 40, shapes="[[9]]", dtypes='["float32"]'),
              device=None),
        event("aten::copy_", 1100, 60, event("aten::_copy_from", 1110, 40, kind="copy", shapes="[[9],[9]]",
              dtypes='["float32","float32"]', device="cpu"), shapes="[[9],[9],null]",
              dtypes='["float32","float32",null]', device="neuron:0"),
        mm(1300, device="neuron:0"),
    ]  # fmt: skip
    work = step_work(memory_trace(events, STEPS, device=neuron))
    assert [c.name for c in work.counted] == ["aten::mm"]
    assert work.unmodelled == ()


def test_an_empty_trace_is_an_answer():
    work = step_work(memory_trace([], []))
    assert (work.calls, work.coverage, work.flops) == (0, None, 0)
    assert all(f.by_op_ns == 0 for f in floors(work))


def test_parents_in_a_circle_end():
    from synthetic import MemoryTrace, metadata, rows_of

    rows = rows_of([mm(1100), mm(1300)], STEPS)
    ops = [r for r in rows if r["kind"] == "op"]
    ops[0]["parent"], ops[1]["parent"] = ops[1]["id"], ops[0]["id"]
    assert step_work(MemoryTrace(rows, metadata())).calls <= 2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.booleans()), max_size=8),
       st.integers(0, 10_000), st.randoms(use_true_random=False))  # fmt: skip
def test_order_and_time_do_not_matter_and_parts_make_the_whole(calls, shift, random):
    from synthetic import MemoryTrace, metadata, rows_of

    events, expected = [], 0
    for i, (m, k, n, nested) in enumerate(calls):
        inner = mm(1000 + 10 * i, m, k, n, duration=5)
        events.append(event("aten::matmul", 1000 + 10 * i, 8, inner) if nested else inner)
        expected += 2 * m * k * n
    rows = rows_of(events, [(1000, 2000, "steady")])
    assert step_work(MemoryTrace(rows, metadata())).flops == expected
    for row in rows:
        row["start"] += shift
    random.shuffle(rows)
    work = step_work(MemoryTrace(rows, metadata()))
    assert work.flops == expected == sum(by_unit_and_dtype(work).values())
    assert work.modelled_calls + sum(u.calls for u in work.unmodelled) == work.calls == len(calls)


# ---------------------------------------------------------------- floors


def test_the_floor_on_paper():
    # 1,000³ products in bfloat16: 2e9 FLOP, 6e6 bytes.
    work = step_work(memory_trace([mm(1100, 1000, 1000, 1000, dtype="bfloat16")], [(1000, 1000, "steady")]))
    one = floor(work, CHIPS["trn2"], 2)
    assert one.arithmetic_ns == pytest.approx(2e9 / (2 * 79e12) * 1e9)  # 12.66 µs
    assert one.memory_ns == pytest.approx(6e6 / (2.9e12 / 8 * 2) * 1e9)  # 8.28 µs
    assert one.by_op_ns == one.arithmetic_ns  # the longer of the two
    assert one.memory_bound == 0
    whole = floor(work, CHIPS["trn2"], None)
    assert whole.arithmetic_ns == pytest.approx(2e9 / 667e12 * 1e9)
    assert whole.cores == 8
    assert "2,900 GB/s" in whole.assumption


def test_each_operator_takes_the_longer_of_its_own_two():
    copy = event("aten::copy_", 1500, 100, shapes="[[1000,1000],[1000,1000],null]",
                 dtypes='["float32","float32",null]')  # fmt: skip
    work = step_work(memory_trace([mm(1100, 1000, 1000, 1000, dtype="bfloat16"), copy], [(1000, 1000, "steady")]))
    found = floor(work, CHIPS["trn2"], 2)
    copied = 8e6 / 725e9 * 1e9
    assert found.by_op_ns == pytest.approx(2e9 / 158e12 * 1e9 + copied)
    assert found.memory_bound == pytest.approx(copied / found.by_op_ns)


def test_every_chip_has_a_device_and_a_whole():
    work = step_work(memory_trace([mm(1100)], STEPS))
    found = floors(work)
    assert [(f.chip, f.scope) for f in found] == [(c, s) for c in CHIPS for s in ("device", "chip")]
    for device, whole in zip(found[::2], found[1::2], strict=True):
        assert 0 < whole.by_op_ns < device.by_op_ns
        assert device.assumption != whole.assumption
        assert device.by_op_ns >= max(device.arithmetic_ns, device.memory_ns) * 0.999


def test_dtypes_without_a_rate_take_the_fastest_so_that_a_floor_stays_one():
    from neuron_explorer.analysis.op_cost import MATRIX, Cost

    for chip in CHIPS.values():
        rate, note = matrix_rate(Cost(1, MATRIX, "int4", (), ()), chip, None)
        assert rate == chip.peak("bfloat16")
        assert "no published rate" in note
        assert matrix_rate(Cost(1, MATRIX, "float64", (), ()), chip, None)[0] == chip.peak("float32")


def test_hardware_figures_have_sources_and_agree_where_they_should():
    def figures(value):
        if isinstance(value, Figure):
            yield value
        elif isinstance(value, dict):
            for inner in value.values():
                yield from figures(inner)
        elif hasattr(value, "__dataclass_fields__"):
            for name in value.__dataclass_fields__:
                yield from figures(getattr(value, name))

    for chip in CHIPS.values():
        every = list(figures(chip))
        assert len(every) > 15
        assert all(f.source.endswith(".rst") and f.unit and f.value > 0 for f in every)
        for dtype, whole in chip.peaks.items():
            one = chip.core.peaks.get(dtype)
            if one is not None and abs(whole.value - one.value * chip.cores.value) > 0.05 * whole.value:
                assert whole.conflict or "MX" in whole.conflict, (chip.key, dtype)
    assert CHIPS["trn1"].core is CORE_V2 is CHIPS["inf2"].core
    assert CHIPS["trn2"].devices == 4 and CHIPS["trn1"].devices == 2
    # The ridge that exported profiles of inf2 give: 223.8 FLOP a byte.
    assert 91.75e12 / CHIPS["inf2"].bandwidth(1) == pytest.approx(223.8, rel=0.001)


def test_hardware_names_no_torch():
    import subprocess
    import sys

    code = "import sys; sys.modules['torch'] = None; from neuron_explorer.neuron import dispatch, hardware"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
