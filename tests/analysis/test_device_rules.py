"""Bounds of a NeuronCore and AWS's rules, on a profile whose numbers can be worked out on paper."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import event, memory_trace, metadata

from neuron_explorer.analysis.insight_rules import RULES
from neuron_explorer.analysis.insights import insights
from neuron_explorer.analysis.insights_device import KEYS
from neuron_explorer.analysis.performance_bounds import bounds, bounds_answer
from neuron_explorer.analysis.questions import Ask
from neuron_explorer.trace import device_profile as dp

US = 1_000
PROFILE = dp.DeviceProfile(
    hardware=dp.Hardware(peak_flops=80e12, dma_bandwidth=400e9),
    total_ns=1_000 * US,
    summary={"model_flops": 16e9, "hbm_read_bytes": 100e6, "spill_reload_bytes": 30e6,
             "dma_transfer_average_bytes": 8_192.0},
    engines=(
        dp.EngineUse("tensor", 0, 600 * US, 0.6, 1_000, 800, 5),
        dp.EngineUse("vector", 0, 200 * US, 0.2, 500, 100, None),
        dp.EngineUse("tensor", 1, 580 * US, 0.58, 900, 800, None),
    ),
    transfers=dp.Transfers("DmaPacket", 500 * US, 100_000_000, 100_000_000, 90_000_000),
    compute=dp.Compute(1_000, 24_000_000_000, 24_000_000_000, 4_800_000_000, 4_800_000_000),
    tensors=dp.Tensors({"IN": 20_000_000, "OUT": 10_000_000, "WEIGHT": 30_000_000},
                       (dp.TensorLoad("w1", "WEIGHT", 1, 3, 3, 3.0),)),
    throttling=(dp.Throttling(0, "power", 50 * US, 0.05, 0.75), dp.Throttling(0, "all", 50 * US, 0.05, 0.75)),
    collectives=(dp.CollectiveUse("AllReduce", "ring", 4096, 9, 10 * US, 12 * US, 13.0 * US, 60 * US),),
)  # fmt: skip


def trace_of(profile):
    meta = metadata(duration_ns=1_000 * US)
    meta[dp.KEY] = dp.as_json(profile)
    return memory_trace([event("matmul", 0, 900 * US, kind="device")], [], **meta)


def test_bounds_on_paper():
    found = bounds(PROFILE)
    assert {b.name: None if b.ns is None else b.ns / US for b in found.bounds} == pytest.approx({
        "total": 1_000, "perfect_pipeline": 600, "memory": 500, "memory_ideal": 250, "memory_no_reloads": 150,
        "compute": 600, "compute_ideal": 300, "compute_useful": 240,
    })  # fmt: skip
    assert found.bottleneck == "tensor"
    gaps = {(g.above, g.below): g.ns / US for g in found.gaps}
    assert gaps == pytest.approx({
        ("total", "memory"): 500, ("total", "compute"): 400, ("total", "perfect_pipeline"): 400,
        ("compute", "compute_ideal"): 300, ("memory", "memory_ideal"): 250, ("memory_ideal", "memory_no_reloads"): 100,
        ("compute_ideal", "compute_useful"): 60,
    })  # fmt: skip
    assert "first w1 (3.0 times its size)" in next(g.loss for g in found.gaps if g.below == "memory_no_reloads")


def test_a_small_gap_of_transfers_is_not_worth_a_look():
    near = replace(PROFILE, transfers=replace(PROFILE.transfers, payload_bytes=192_000_000))  # 480 of 500 us
    assert ("memory", "memory_ideal") not in {(g.above, g.below) for g in bounds(near).gaps}


def test_the_report_says_what_it_rests_on():
    answer = bounds_answer(trace_of(PROFILE), Ask())
    assert answer.headline.startswith("tensor is active longest: 60.0 % of 1.00 ms") or "60" in answer.headline
    tensor = next(r for r in answer.table("engines").records() if r["engine"] == "tensor" and r["core"] == 0)
    assert tensor["kernel_share"] == pytest.approx(0.8) and tensor["speedup"] == pytest.approx(2.0)
    assert any("transfers cover" in note for note in answer.notes)
    other = bounds_answer(memory_trace([event("aten::mm", 0, 10)], []), Ask())
    assert other.headline.startswith("not observed") and other.missing


def measured(profile):
    return {c.rule.key: c for c in insights(trace_of(profile)).checked if c.rule.key in KEYS}


def test_each_rule_measures_what_aws_describes():
    found = measured(PROFILE)
    assert {key: c.measured for key, c in found.items()} == pytest.approx({
        "device_useful": 16e9 / 80e12 * 1e9 / (600 * US), "device_kernels": 0.2, "device_throttled": 50 * US,
        "device_transposes": 0.2, "device_collectives": 5.0, "device_spills": 0.3, "device_small_dma": 8_192,
    })  # fmt: skip
    assert all(len(c.findings) == 1 for c in found.values())
    assert "w1" not in str(found) and "AllReduce of 4,096 B" in found["device_collectives"].findings[0].title


def test_no_gain_is_larger_than_the_time_involved():
    found = measured(PROFILE)
    most = {key: f.gain_ns[1] / US for key, c in found.items() for f in c.findings if f.gain_ns}
    assert most == pytest.approx({
        "device_useful": 400, "device_throttled": 50, "device_transposes": 60, "device_collectives": 48,
        "device_spills": 75, "device_small_dma": 250,
    })  # fmt: skip


def test_at_their_thresholds_there_is_nothing_to_say():
    good = replace(
        PROFILE,
        summary={"model_flops": 24e9, "hbm_read_bytes": 100e6, "spill_reload_bytes": 24e6,
                 "dma_transfer_average_bytes": 32_768.0},
        engines=(dp.EngineUse("tensor", 0, 600 * US, 0.6, 1_000, 500),),
        compute=dp.Compute(1, 24_000_000_000, 24_000_000_000, 2_300_000_000, 2_300_000_000),
        throttling=(dp.Throttling(0, "all", 0, 0.0, 1.0),),
        collectives=(dp.CollectiveUse("AllReduce", "ring", 4096, 9, 10 * US, 12 * US, 13.0 * US, 20 * US),),
    )  # fmt: skip
    found = measured(good)
    assert all(c.measured is not None and not c.findings for c in found.values()), found


def test_what_a_profile_does_not_say_is_not_observed():
    found = measured(dp.DeviceProfile(total_ns=10))
    assert all(c.measured is None and c.why for c in found.values())
    plain = {c.rule.key: c for c in insights(memory_trace([event("aten::mm", 0, 10)], [])).checked}
    assert all(plain[key].measured is None and "device profile" in plain[key].why for key in KEYS)
    assert all(RULES[key].source.startswith("AWS Neuron Explorer") for key in KEYS)


numbers = st.one_of(st.none(), st.integers(0, 10**15))
shares = st.one_of(st.none(), st.floats(0, 1e18))


@given(st.builds(
    dp.DeviceProfile, total_ns=numbers,
    hardware=st.builds(dp.Hardware, peak_flops=shares, dma_bandwidth=shares),
    transfers=st.builds(dp.Transfers, active_ns=numbers, payload_bytes=numbers, bytes=numbers, transfer_bytes=numbers),
    compute=st.builds(dp.Compute, flops=numbers, adjusted_flops=numbers, transpose_flops=numbers,
                      adjusted_transpose_flops=numbers),
    engines=st.lists(st.builds(dp.EngineUse, st.sampled_from(dp.ENGINES), active_ns=numbers), max_size=4).map(tuple),
))  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_whatever_a_profile_says_bounds_are_numbers(profile):
    found = bounds(profile)
    assert all(b.ns is None or (math.isfinite(b.ns) and b.ns >= 0) for b in found.bounds)
    assert all(b.ns is not None or b.why for b in found.bounds)
    assert all(gap.ns > 0 for gap in found.gaps)
