"""Floors, verdicts and device time of lines, on traces whose answer can be computed on paper."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.hardware_bound import hardware_bound, totals
from neuron_explorer.analysis.questions import ask
from neuron_explorer.analysis.readiness import EAGER_LAUNCH_US
from neuron_explorer.neuron.hardware import CHIPS

STEPS = [(0, 100_000, "warmup"), (100_000, 100_000, "steady")]
TRN2 = CHIPS["trn2"]
CORES = int(TRN2.cores_per_device.value)
BANDWIDTH = TRN2.bandwidth(CORES)


def mm(start, m, k, n, *children, line=1, duration=100, **more):
    return event("aten::mm", start, duration, *children, shapes=f"[[{m},{k}],[{k},{n}]]",
                 dtypes='["bfloat16","bfloat16"]', file="m.py", line=line, function="f", outermost_on_line=True,
                 **more)  # fmt: skip


def device(start, duration, launched_by, line=1):
    return event("kernel", start, duration, kind="device", lane=7, correlation=launched_by, file="m.py", line=line)


def test_floor_intensity_and_verdict_of_a_large_product_are_those_computed_by_hand():
    n = 8192
    found = hardware_bound(memory_trace([mm(100_100, n, n, n)], STEPS))
    (line,) = found.lines
    assert (line.file, line.line, line.calls) == ("m.py", 1, 1)
    assert line.flops == 2 * n**3 and line.bytes == 3 * n * n * 2
    assert line.intensity == pytest.approx(n / 3)
    assert line.compute_ns == pytest.approx(2 * n**3 / TRN2.peak("bfloat16", CORES) * 1e9)
    assert line.memory_ns == pytest.approx(3 * n * n * 2 / BANDWIDTH * 1e9)
    assert line.floor_ns == line.compute_ns > EAGER_LAUNCH_US[0] * 1000
    assert line.verdict == "compute"
    assert (line.device_ns, line.mfu) == (None, None)


def test_a_wide_elementwise_line_is_memory_bound_and_a_small_one_launch_bound():
    add = dict(dtypes='["bfloat16","bfloat16",null]', file="m.py", function="f", outermost_on_line=True)
    big = event("aten::add.Tensor", 100_100, 100, shapes="[[8192,32768],[8192,32768],null]", line=1, **add)
    small = event("aten::add.Tensor", 100_300, 100, shapes="[[8],[8],null]", line=2, **add)
    found = hardware_bound(memory_trace([big, small], STEPS))
    assert {line.line: line.verdict for line in found.lines} == {1: "memory", 2: "launch"}


def test_calls_inside_a_compiled_graph_cost_no_launch_each():
    inside = mm(100_110, 8, 8, 8)
    graph = event("Torch-Compiled Region: 0/0", 100_100, 300, inside, kind="launch", file="m.py", line=9)
    found = hardware_bound(memory_trace([graph, mm(100_500, 8, 8, 8, line=2)], STEPS))
    verdicts = {line.line: line.verdict for line in found.lines}
    assert verdicts[1] == "memory" and verdicts[2] == "launch"


def test_a_line_that_gives_the_device_nothing_is_host_bound_and_one_without_a_model_has_no_verdict():
    view = event("aten::view", 100_100, 50, shapes="[[8],null]", dtypes='["float32",null]', file="m.py", line=1)
    odd = event("aten::_unique2", 100_300, 50, shapes="[[8]]", dtypes='["float32"]', file="m.py", line=2)
    found = hardware_bound(memory_trace([view, odd], STEPS))
    assert {line.line: (line.verdict, line.calls) for line in found.lines} == {1: ("host", 0), 2: ("", 1)}
    assert [u.name for u in found.unmodelled] == ["aten::_unique2"]


def test_device_time_belongs_to_the_operator_that_speaks_for_its_launch():
    # The kernel is launched by an operator inside the product; the product's line gets its time.
    inner = event("aten::copy_", 100_110, 20, shapes="[[8,8],[8,8]]", dtypes='["bfloat16","bfloat16"]', file="m.py",
                  device="neuron:0")  # fmt: skip
    tree = [mm(100_100, 4096, 4096, 4096, inner, duration=50, device="neuron:0")]
    plain = memory_trace(tree, STEPS)
    rows = plain.sql_arrow("SELECT name, id FROM events WHERE kind = 'op'").to_pylist()
    ids = {row["name"]: row["id"] for row in rows}
    chip = {"type": "neuron", "name": "Trainium2", "emulated": False}
    trace = memory_trace([*tree, device(100_200, 4_000_000, ids["aten::copy_"])], STEPS, device=chip)
    found = hardware_bound(trace)
    assert found.device_seen
    line = next(b for b in found.lines if b.line == 1)
    assert line.device_ns == 4_000_000 and line.verdict == "compute"
    assert line.mfu == pytest.approx(line.compute_ns / 4_000_000)
    elsewhere = hardware_bound(memory_trace([*tree, device(100_200, 4_000_000, ids["aten::copy_"])], STEPS))
    assert next(b for b in elsewhere.lines if b.line == 1).mfu is None, "the peak of another device is not known"
    # Where the device needs less than the host took to submit, the launch is what bounds it.
    short = hardware_bound(memory_trace([*tree, device(100_200, 10, ids["aten::mm"])], STEPS))
    assert next(b for b in short.lines if b.line == 1).verdict == "launch"


sizes = st.integers(1, 64)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(sizes, sizes, sizes, st.integers(1, 4)), max_size=8))
def test_lines_and_operators_add_up_to_the_same_work(products):
    events = [mm(100_000 + 500 * i, m, k, n, line=line) for i, (m, k, n, line) in enumerate(products)]
    found = hardware_bound(memory_trace(events, STEPS))
    by_line, by_op = totals(found.lines), totals(found.ops)
    assert by_line[:2] == by_op[:2] == (sum(2 * m * k * n for m, k, n, _ in products),
                                        sum(2 * (m * k + k * n + m * n) for m, k, n, _ in products))  # fmt: skip
    assert by_line[2] == pytest.approx(by_op[2])
    assert all(b.floor_ns >= max(b.compute_ns, b.memory_ns) * (1 - 1e-12) for b in found.lines)


def test_without_shapes_the_report_says_so_and_an_empty_trace_is_an_answer():
    answer = ask(memory_trace([], []), "roofline")
    assert answer.headline == "no operator of this part of the run works on a device"
    bare = memory_trace([event("aten::mm", 10, 10, file="m.py", line=1)], [])
    answer = ask(bare, "roofline")
    (row,) = answer.table("unmodelled").records()
    assert row["reason"] == "shapes not recorded" and row["share"] == 1.0


def test_the_chip_is_the_target_and_an_unknown_one_is_refused():
    trace = memory_trace([mm(100_100, 512, 512, 512)], STEPS)
    slow, fast = (ask(trace, "roofline", Ask(target=c)).table("roofline_ops").column("floor_ns")[0]
                  for c in ("trn1", "trn3"))  # fmt: skip
    assert slow > fast
    with pytest.raises(ValueError, match="trn2"):
        ask(trace, "roofline", Ask(target="h100"))
