"""The porting report on hand-built traces: statuses, limits, shape variety, waits, words."""

from __future__ import annotations

import json

import pytest
from synthetic import event, memory_trace, metadata

from neuron_explorer.analysis import render_readiness
from neuron_explorer.analysis.readiness import readiness
from neuron_explorer.analysis.readiness_words import arithmetic, shape_sentence, size, status_sentence
from neuron_explorer.neuron.dispatch import is_composite, is_native, native_operators

STEPS = [(0, 1000, "warmup"), (1000, 1000, "steady"), (2000, 1000, "steady")]
EMULATED = {"type": "neuron", "name": "NeuronCore (emulated on the CPU)", "emulated": True}


def seen(**more):
    """Metadata of a recording on the emulated device."""
    return {
        "device": {**EMULATED, **more},
        "capabilities": metadata()["capabilities"] | {"fallback": {"observed": True, "reason": ""}},
    }


def op(name, start, *children, shape=(4, 4), dtype="float32", line=1, duration=50, tensors=1, arguments=None, **more):
    shapes = json.dumps([list(shape)] * tensors + [None])
    dtypes = json.dumps([dtype] * tensors + [None])
    return event(name, start, duration, *children, shapes=shapes, dtypes=dtypes, file="m.py", line=line,
                 arguments=arguments, function="f", **more)  # fmt: skip


def statuses(report):
    return {o.name: (o.status, o.calls) for o in report.operators}


# ---------------------------------------------------------------- statuses


def test_predicted_from_the_list_at_the_operator_that_reaches_the_device():
    report = readiness(
        memory_trace(
            [
                op("aten::matmul", 1000, op("aten::mm", 1005, op("aten::resolve_conj", 1010, duration=5), duration=40)),
                op("aten::addmm", 1100, op("aten::argmax", 1110, duration=5)),  # inside a native kernel: not looked at
                op("aten::argmax", 1200, line=7),
                op("aten::sqrt", 1300),  # by its out form
                op("aten::_scaled_dot_product_flash_attention_for_cpu", 1400),  # its own form on the device
                op("mylib::swish", 1500),
                op("detach", 1600),
            ],
            STEPS,
        )
    )
    assert not report.seen and not report.emulated
    assert statuses(report) == {
        "aten::argmax": ("fallback", 1),
        "mylib::swish": ("unknown", 1),
        "aten::mm": ("native", 1),
        "aten::addmm": ("native", 1),
        "aten::sqrt": ("native", 1),
        "aten::_scaled_dot_product_flash_attention_for_cpu": ("native", 1),
    }
    assert "Predicted" in report.basis
    (fallback,) = report.by_status("fallback")
    assert [(x.file, x.line, x.calls) for x in fallback.lines] == [("m.py", 7, 1)]
    assert fallback.bytes_to_host == 4 * 4 * 4
    assert "predicted" in fallback.reason
    assert "1 operator" in status_sentence(report) or "4 operators native" in status_sentence(report)


def test_fallbacks_that_were_seen_are_not_predicted():
    fell = op("aten::argmax", 1010, kind="fallback", line=7, device="neuron:0",
              detail='{"bytes_to_host": 64, "bytes_to_device": 8}')  # fmt: skip
    report = readiness(
        memory_trace(
            [
                op("aten::argmax", 1000, fell, line=7, device="neuron:0"),
                op("aten::argmax", 2000, op("aten::argmax", 2010, kind="fallback", line=7, device="neuron:0",
                   detail='{"bytes_to_host": 64, "bytes_to_device": 8}'), line=7, device="neuron:0"),
                op("aten::mm", 1100, tensors=2, device="neuron:0"),
                op("aten::cholesky", 1200, device="neuron:0"),  # not on the list, and did not fall back
                op("aten::mm", 1300, tensors=2, device="cpu"),  # the host's own
            ],
            STEPS,
            **seen(),
        )
    )  # fmt: skip
    assert report.seen and report.emulated
    assert statuses(report) == {
        "aten::argmax": ("fallback", 2), "aten::mm": ("native", 1), "aten::cholesky": ("native", 1),
    }  # fmt: skip
    (fallback,) = report.by_status("fallback")
    assert (fallback.bytes_to_host, fallback.bytes_to_device, fallback.steady_calls) == (128, 16, 2)
    assert "predicted" not in status_sentence(report)


def test_a_native_operator_may_fall_back_all_the_same():
    fell = op("aten::mm", 1010, kind="fallback", device="neuron:0")
    report = readiness(memory_trace([op("aten::mm", 1000, fell, device="neuron:0")], STEPS, **seen()))
    assert statuses(report) == {"aten::mm": ("fallback", 1)}


def test_names_that_the_device_gives_count_as_fallbacks():
    report = readiness(
        memory_trace([op("aten::mm", 1000, device="neuron:0")], STEPS, **seen(fallback_ops=["aten::mm", 3, None]))
    )
    assert statuses(report) == {"aten::mm": ("fallback", 1)}


def test_a_neuron_trace_that_could_not_look_is_predicted_and_says_so():
    report = readiness(memory_trace([op("aten::argmax", 1000, device="neuron:0")], STEPS, device=EMULATED))
    assert not report.seen
    assert "did not tell" in report.basis
    assert statuses(report) == {"aten::argmax": ("fallback", 1)}


@pytest.mark.parametrize("detail", ["nonsense", "[1]", '{"bytes_to_host": -5}', '{"bytes_to_host": "x"}', "[" * 3000])
def test_odd_details_count_nothing(detail):
    fell = op("aten::argmax", 1010, kind="fallback", device="neuron:0", detail=detail)
    (row,) = readiness(memory_trace([fell], STEPS, **seen())).by_status("fallback")
    assert (row.bytes_to_host, row.bytes_to_device) == (0, 0)


def test_an_operator_of_the_programs_own_is_native_where_it_has_a_kernel_for_the_device():
    custom = {"mine::fast": ["neuron", "cpu"], "mine::composed": [""], "mine::host": ["cpu"]}
    events = [
        op("mine::fast", 1000, op("aten::argmax", 1005, duration=5)),  # its kernel answers for what is in it
        op("mine::composed", 1100, op("aten::argmax", 1105, duration=5), op("aten::mm", 1110, duration=5)),
        op("mine::host", 1200),
        op("mine::nobody_knows", 1300),
    ]
    report = readiness(memory_trace(events, STEPS, custom_operators=custom))
    assert statuses(report) == {
        "mine::fast": ("native", 1), "aten::argmax": ("fallback", 1), "aten::mm": ("native", 1),
        "mine::host": ("fallback", 1), "mine::nobody_knows": ("unknown", 1),
    }  # fmt: skip
    reasons = {o.name: o.reason for o in report.operators}
    assert reasons["mine::host"] == "predicted: the program registered it for cpu only"
    assert reasons["mine::fast"] == "the program registered a kernel for the device"


@pytest.mark.parametrize("entry", [None, [], "x", {"mine::op": "neuron"}, {"mine::op": [1, None]}, {3: ["neuron"]}])
def test_odd_entries_of_custom_operators(entry):
    report = readiness(memory_trace([op("mine::op", 1000)], STEPS, custom_operators=entry))
    assert statuses(report)["mine::op"][0] in ("unknown", "fallback")


def test_the_lists_of_the_package():
    native = native_operators()
    assert native is not None and "mm" in native
    assert is_native("aten::add_.Tensor", native) and not is_native("aten::argmax", native)
    assert is_composite("aten::linear") and not is_composite("aten::mm")


# ---------------------------------------------------------------- limits


def limits_of(*events, **changes):
    return {x.key: x for x in readiness(memory_trace(list(events), STEPS, **changes)).limits}


def test_limits_by_dtype_name_and_layout():
    found = limits_of(
        op("aten::mul.Tensor", 1000, dtype="float64", line=3),
        op("aten::mul.Tensor", 1050, shape=(), dtype="float64"),  # a number
        op("aten::mul.Tensor", 1100, dtype="complex64"),
        op("aten::to_sparse", 1200),
        op("aten::nonzero", 1300, line=9),
        op("aten::index.Tensor", 1400, dtype="bool", tensors=2),
        op("aten::_scaled_mm", 1500, dtype="float8_e4m3fn", tensors=2),
        op("aten::add.Tensor", 1600, dtype="int64"),
        event("aten::convolution", 1700, 10, shapes="[[2,8,5,5],[4,8,3,3],null]",
              strides="[[200,1,40,8],[72,9,3,1],null]", dtypes='["float32","float32",null]', file="m.py", line=4),
    )  # fmt: skip
    assert set(found) == {
        "float64", "complex", "sparse", "dynamic", "scaled_mm", "int64", "channels_last", "fp8_rate", "fp8_mx",
    }  # fmt: skip
    assert found["float64"].calls == 1
    assert [(x.line, x.calls) for x in found["float64"].lines] == [(3, 1)]
    assert found["dynamic"].calls == 2
    assert found["fp8_rate"].chips == ("trn1", "inf2")


def test_names_that_only_look_like_it_are_no_limit():
    assert not limits_of(
        op("aten::max_pool2d_with_indices", 1000), op("aten::where.self", 1100), op("aten::index.Tensor", 1200),
        op("aten::nonzero_static", 1300),
    )  # fmt: skip


def test_a_limit_counts_once_where_calls_nest():
    found = limits_of(op("aten::mean", 1000, op("aten::sum", 1010, dtype="float64", duration=10), dtype="float64"))
    assert found["float64"].calls == 1


def test_limits_of_other_chips_are_left_out():
    trace = memory_trace([op("aten::mm", 1000, dtype="float8_e4m3fn", tensors=2)], STEPS)
    assert {x.key for x in readiness(trace, "trn2").limits} == set()
    assert {x.key for x in readiness(trace, "trn1").limits} == {"fp8_rate"}
    assert {f.chip for f in readiness(trace, "trn1").floor.floors} == {"trn1"}
    with pytest.raises(ValueError, match="chip must be one of"):
        readiness(trace, "gpu")


# ---------------------------------------------------------------- shape variety


def test_new_shapes_after_the_first_step_are_late():
    sizes = [(100, 8), (1100, 9), (2100, 8), (2200, 7)]
    report = readiness(memory_trace([op("aten::relu", at, shape=(n, 4)) for at, n in sizes], STEPS))
    (row,) = report.shapes.lines
    assert (row.calls, row.signatures, row.new, row.late, row.last_step) == (4, 3, 3, 2, 2)
    assert row.varies == "{7, 8, 9}×4"
    assert (report.shapes.artifacts, report.shapes.late) == (3, 2)
    assert "2 of them after the first step" in shape_sentence(report.shapes, False)


def test_real_numbers_need_no_artifact_of_their_own_but_whole_ones_do():
    def with_argument(values):
        events = [op("aten::add_.Tensor", 100 + 100 * i, arguments=f"[null,{v}]") for i, v in enumerate(values)]
        return readiness(memory_trace(events, STEPS)).shapes.artifacts

    assert with_argument(["0.1", "0.25", '"varies"', "1.5e-05"]) == 1
    assert with_argument(["1", "2", "true"]) == 3


def test_lines_share_artifacts_and_the_first_one_brings_them():
    events = [op("aten::relu", 100, line=1), op("aten::relu", 200, shape=(5, 4), line=1),
              op("aten::relu", 300, line=2), op("aten::relu", 400, shape=(5, 4), line=2)]  # fmt: skip
    report = readiness(memory_trace(events, STEPS))
    assert {r.line: r.new for r in report.shapes.lines} == {1: 2, 2: 0}
    assert report.shapes.artifacts == sum(r.new for r in report.shapes.lines) == 2


def test_views_and_copies_are_no_artifacts():
    report = readiness(memory_trace([op("aten::view", 100), op("aten::copy_", 200)], STEPS))
    assert report.shapes.artifacts == 0


def test_without_steps_nothing_is_said_about_late():
    report = readiness(memory_trace([op("aten::relu", 100), op("aten::relu", 200, shape=(5, 4))], []))
    assert report.shapes.late == -1
    assert "without steps" in shape_sentence(report.shapes, False)


# ---------------------------------------------------------------- waits


def test_values_read_on_a_cpu_are_predicted_waits():
    report = readiness(
        memory_trace(
            [op("aten::item", 1000, op("aten::_local_scalar_dense", 1005, duration=5, line=4), line=4),
             op("aten::_local_scalar_dense", 1100, line=6, phase="optimizer"),
             event("next", 1300, 100, op("aten::_local_scalar_dense", 1310, line=2), kind="data_wait")],
            STEPS,
        )
    )  # fmt: skip
    assert [(x.line, x.what, x.calls, x.predicted, x.host_counter) for x in report.waits] == [
        (4, "value", 1, True, False), (6, "value", 1, True, True),
    ]  # fmt: skip


def test_waits_that_were_seen():
    report = readiness(
        memory_trace(
            [op("aten::_local_scalar_dense", 1000, kind="sync", line=4, device="neuron:0"),
             op("aten::_copy_from", 1100, kind="copy", line=5, detail='{"bytes": 64, "direction": "device_to_host"}'),
             op("aten::_copy_from", 1200, kind="copy", line=6, detail='{"bytes": 32, "direction": "host_to_device"}'),
             op("aten::_copy_from", 1300, kind="copy", line=7, detail='{"bytes": 32, "direction": "device_to_device"}'),
             op("aten::sort", 1400, op("neuron::copy_to_host", 1410, kind="copy", line=8), kind="fallback", line=8)],
            STEPS,
            **seen(),
        )
    )  # fmt: skip
    found = {(x.line, x.what, x.bytes) for x in report.waits}
    assert found == {(4, "value", 0), (5, "to host", 64), (6, "to device", 32)}
    assert not any(x.predicted for x in report.waits)


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("format", ["text", "markdown", "json"])
def test_emulated_is_said_and_no_time_is_called_the_devices(format):
    text = render_readiness.render(readiness(memory_trace([op("aten::mm", 1000, tensors=2)], STEPS, **seen())), format)
    assert "emulated" in text
    assert "device time" not in text
    assert "host time" in text


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_predictions_are_called_predictions(format):
    text = render_readiness.render(readiness(memory_trace([op("aten::argmax", 1000)], STEPS)), format)
    assert "predicted" in text and "emulated or real" in text


@pytest.mark.parametrize("format", ["text", "markdown", "json"])
@pytest.mark.parametrize("events", [[], [op("aten::mm", 1000)]], ids=["empty", "no sense"])
def test_any_trace_has_a_report(events, format):
    report = readiness(memory_trace(events, [], capabilities={}))
    text = render_readiness.render(report, format)
    assert "Floor" in text or "floor" in text
    if format == "json":
        assert json.loads(text)["readiness_version"] == 1


HOSTILE = "\x1b[31m<script>alert(1)</script>|`*\u202e" + "x" * 5000


@pytest.mark.parametrize("format", ["text", "markdown", "json"])
def test_hostile_names_stay_text(format):
    events = [
        event(HOSTILE, 1000, 50, file=HOSTILE, line=3, function=HOSTILE, shapes=HOSTILE, dtypes=HOSTILE),
        event("aten::" + HOSTILE, 1100, 50, file=HOSTILE, line=3, shapes=f'["{"9" * 3000}"]', dtypes='["float32"]'),
        event("lib::" + HOSTILE, 1200, 50, shapes="[[9999999999999,9999999999999]]", dtypes='["float32"]'),
        event("aten::relu", 1300, 50, shapes="[[3]]", dtypes=json.dumps(["float64" + HOSTILE])),
        event("aten::relu", 1400, 50, shapes="[[4]]", dtypes=json.dumps(["float64" + HOSTILE])),
    ]
    device = {"type": HOSTILE, "name": HOSTILE, "emulated": True, "fallback_ops": [HOSTILE] * 9}
    report = readiness(memory_trace(events, STEPS, device=device, script=HOSTILE))
    text = render_readiness.render(report, format)
    assert "\x1b" not in text and "\u202e" not in text
    if format == "markdown":
        assert "<script>" not in text.replace("`", "\x00").split("\x00")[0]


def test_render_refuses_other_formats():
    with pytest.raises(ValueError, match="format must be one of"):
        render_readiness.render(readiness(memory_trace([], [])), "html")


def test_sizes_in_words():
    assert [size(n) for n in (None, 0, 999, 1500, 2.5e6)] == ["–", "0 B", "999 B", "1.50 kB", "2.50 MB"]
    assert [arithmetic(n) for n in (0, 120, 3.5e9)] == ["0 FLOP", "120 FLOP", "3.50 GFLOP"]


def test_what_runs_inside_a_compiled_graph_needs_no_artifact_of_its_own():
    graph = event("Torch-Compiled Region: 0/0", 1000, 300, event("CompiledFunction", 1010, 200, op("aten::relu", 1020)),
                  kind="launch")  # fmt: skip
    report = readiness(memory_trace([graph, op("aten::relu", 1500), op("aten::relu", 2500, shape=(5, 4))], STEPS))
    assert report.shapes.artifacts == 2
    assert (report.launches_per_step, report.graphs_per_step) == (1.0, 0.5)
    assert statuses(report) == {"aten::relu": ("native", 3)}
