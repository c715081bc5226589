"""Executions on the device: their rows, the operator and line each belongs to, shares of merged ones."""

from __future__ import annotations

import json
from collections import defaultdict
from types import SimpleNamespace

import pytest

from neuron_explorer.trace import convert as conversion
from neuron_explorer.trace import device_spool, spool
from neuron_explorer.trace.device_spool import Execution, Launch
from neuron_explorer.trace.recorders.device_events import collect

START = 1_000_000
COLUMNS = "kind name start duration id parent lane device stream file line module phase step correlation detail process"


def keep(recording, executions, launches, pid=100):
    device_spool.write(
        recording.spool, pid,
        [Execution(name, START + a, START + b, device, stream, n) for name, a, b, device, stream, n in executions],
        [Launch(START + at, thread, number) for at, thread, number in launches],
    )  # fmt: skip


@pytest.fixture
def program(recording):
    """Two operators on two lines, one inside the other's module, and a step mark."""
    one = recording()
    process = one.process()
    thread = process.thread(name="main", os_thread=7)
    module = process.writer.module(0, "", "Net", 1)
    with thread("aten::linear", 100, 200, stack=process.stack("train.py:3:main"), module=module):
        thread.op("aten::addmm", 110, 190, module=module)
    thread.op("aten::relu", 300, 400, stack=process.stack("train.py:4:main"))
    thread.mark(spool.STEP, 450, seq=0)
    return one


def test_an_execution_has_the_line_of_the_operator_that_launched_it(program):
    keep(program, [("gemm", 150, 500, "cuda:0", 7, 1), ("relu_kernel", 500, 520, "cuda:0", 7, 2),
                   ("memset", 505, 510, "cuda:1", 3, 9)],
         [(120, 7, 1), (350, 7, 2)])  # fmt: skip
    rows = program.rows(COLUMNS)
    host = {r["name"]: r for r in rows if r["kind"] == "op"}
    device = {r["name"]: r for r in rows if r["kind"] == "device"}
    gemm, relu, memset = device["gemm"], device["relu_kernel"], device["memset"]
    assert gemm["correlation"] == host["aten::addmm"]["id"]
    assert (gemm["file"], gemm["line"], gemm["module"], gemm["phase"]) == ("train.py", 3, "Net", "forward")
    assert (gemm["start"], gemm["duration"], gemm["step"]) == (150, 350, 0)
    assert (relu["line"], relu["correlation"]) == (4, host["aten::relu"]["id"])
    assert (memset["line"], memset["correlation"], memset["file"]) == (-1, -1, None)
    assert (memset["device"], memset["stream"]) == ("cuda:1", 3)
    assert gemm["lane"] == relu["lane"] != memset["lane"]
    assert len({r["id"] for r in rows}) == len(rows)
    assert [r["start"] for r in rows] == sorted(r["start"] for r in rows)
    assert {r["kind"] for r in rows} == {"op", "device", "step"}


def test_lanes_counts_and_length_of_the_trace(program):
    keep(program, [("gemm", 150, 9000, "cuda:0", 7, 1)], [(120, 7, 1)])
    with program.trace() as trace:
        document = trace.metadata
    lane = next(entry for entry in document["lanes"] if entry["kind"] == "device")
    assert (lane["name"], lane["device"], lane["stream"]) == ("cuda:0 stream 7", "cuda:0", 7)
    assert len({entry["lane"] for entry in document["lanes"]}) == len(document["lanes"])
    assert document["counts"]["by_kind"]["device"] == 1
    assert document["counts"]["events"] == 5
    assert document["duration_ns"] == 9000


def test_one_operator_many_executions(program):
    keep(program, [(f"part{i}", 200 + 10 * i, 205 + 10 * i, "cuda:0", 7, i + 1) for i in range(4)],
         [(120 + i, 7, i + 1) for i in range(4)])  # fmt: skip
    rows = [r for r in program.rows(COLUMNS) if r["kind"] == "device"]
    assert len(rows) == 4
    assert {(r["line"], r["correlation"]) for r in rows} == {(3, 1)}


@pytest.mark.parametrize("length", [300, 301, 7, 0])
def test_shares_of_a_merged_execution_sum_to_it(program, length):
    """One execution for three launches: two of one line's operators, one of another's."""
    keep(
        program, [("merged", 500, 500 + length, "neuron:0", 0, 5)], [(105, 7, 5), (120, 7, 5), (130, 7, 5), (350, 7, 5)]
    )
    rows = program.rows(COLUMNS)
    execution = next(r for r in rows if r["kind"] == "device")
    links = [r for r in rows if r["kind"] == "link"]
    by_name = {r["name"]: r["id"] for r in rows if r["kind"] == "op"}
    assert [link["correlation"] for link in links] == [
        by_name[n] for n in ("aten::linear", "aten::addmm", "aten::relu")
    ]
    assert {link["parent"] for link in links} == {execution["id"]}
    assert (execution["line"], execution["correlation"]) == (-1, -1)
    assert json.loads(execution["detail"]) == {"operators": 3}
    shares = defaultdict(int)
    for link in links:
        shares[link["line"]] += link["duration"]
    assert set(shares) == {3, 4}
    assert sum(shares.values()) == execution["duration"] == length
    assert max(link["duration"] for link in links) - min(link["duration"] for link in links) <= 1
    assert {link["lane"] for link in links} == {execution["lane"]}


def test_backward_launches_have_the_line_of_the_forward(recording):
    one = recording()
    process = one.process()
    main, backward = process.thread(name="main", os_thread=1), process.thread(logical=9, os_thread=2)
    main.op("aten::mul", 10, 20, stack=process.stack("m.py:7:forward"), seq=0, aux=1)
    with backward.node("MulBackward0", 30, 90, seq=0):
        backward.op("aten::mul", 40, 80)
    keep(one, [("mul_kernel", 60, 70, "cuda:0", 7, 1)], [(50, 2, 1)])
    row = next(r for r in one.rows(COLUMNS) if r["kind"] == "device")
    assert (row["line"], row["phase"]) == (7, "backward")


def test_lines_are_found_across_windows(recording, monkeypatch):
    one = recording()
    process = one.process()
    thread = process.thread(os_thread=7)
    for i in range(50):
        thread.op("aten::relu", 100 * i + 10, 100 * i + 20, stack=process.stack(f"train.py:{i + 1}:main"))
    keep(one, [("k", 100 * i + 2010, 100 * i + 2050, "cuda:0", 7, i + 1) for i in range(50)],
         [(100 * i + 15, 7, i + 1) for i in range(50)])  # fmt: skip
    monkeypatch.setattr(conversion, "windows", lambda *_: [START + 1000, START + 2500, START + 6000])
    rows = one.rows(COLUMNS)
    device = [r for r in rows if r["kind"] == "device"]
    assert [r["line"] for r in device] == list(range(1, 51))
    assert [r["start"] for r in rows] == sorted(r["start"] for r in rows)


def test_a_launch_on_an_unknown_thread_is_looked_for_by_time(program):
    keep(program, [("gemm", 150, 160, "cuda:0", 7, 1)], [(120, 99, 1)])
    row = next(r for r in program.rows(COLUMNS) if r["kind"] == "device")
    assert row["line"] == 3


def test_no_executions_change_nothing(program):
    keep(program, [], [])
    assert not list(program.spool.glob("device-*"))
    assert {r["kind"] for r in program.rows(COLUMNS)} == {"op", "step"}


def test_nonsense_is_left_out(program):
    keep(program, [("backwards", 200, 100, "cuda:0", 7, 1), ("never", -(10**17), 5, "cuda:0", 7, 1),
                   ("fine", 10, 20, "cuda:0", -1, -5)], [(120, 7, 1)])  # fmt: skip
    rows = [r for r in program.rows(COLUMNS) if r["kind"] in ("device", "link")]
    assert [(r["name"], r["line"]) for r in rows] == [("fine", -1)]


def test_a_damaged_file_is_no_file(program):
    keep(program, [("gemm", 150, 160, "cuda:0", 7, 1)], [])
    file = next(program.spool.glob("device-*.npz"))
    file.write_bytes(file.read_bytes()[:100])
    (program.spool / "device-7.npz").write_bytes(b"")
    (program.spool / "device-x.npz").write_bytes(b"PK")
    assert {r["kind"] for r in program.rows(COLUMNS)} == {"op", "step"}


# Kineto's events ------------------------------------------------------------------------------


def kineto(name, activity, device, start, duration, *, correlation=0, index=0, resource=7, **more):
    values = {
        "name": name, "activity_type": activity, "device_type": f"DeviceType.{device}", "start_ns": start,
        "duration_ns": duration, "correlation_id": correlation, "device_index": index, "device_resource_id": resource,
        **more,
    }  # fmt: skip
    return SimpleNamespace(**{key: (lambda value=value: value) for key, value in values.items()})


def test_kinetos_events_are_told_apart():
    events = [
        kineto("cudaLaunchKernel", "cuda_runtime", "CPU", 1000, 10, correlation=5, resource=4242),
        kineto("gemm", "kernel", "CUDA", 1100, 50, correlation=5),
        kineto("Memcpy HtoD", "gpu_memcpy", "CUDA", 1200, 0, correlation=6, index=1, resource=3),
        kineto("my range", "gpu_user_annotation", "CUDA", 1000, 500),
        kineto("aten::mm", "cpu_op", "CPU", 990, 200),
        kineto("cudaDeviceSynchronize", "cuda_runtime", "CPU", 1300, 10),
    ]
    executions, launches = collect(events, offset_ns=-900)
    assert executions == [
        Execution("gemm", 200, 250, "cuda:0", 7, 5), Execution("Memcpy HtoD", 300, 300, "cuda:1", 3, 6)
    ]  # fmt: skip
    assert launches == [Launch(100, 4242, 5)]


def test_a_private_device_has_its_own_name(monkeypatch):
    import torch

    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "neuron")
    event = kineto("nc_exec_running", "privateuse1_driver", "PrivateUse1", 10, 5, correlation=1)
    executions, _ = collect([event], offset_ns=0)
    assert executions[0].device == "neuron:0"


def test_a_torch_whose_events_say_less():
    event = SimpleNamespace(
        name=lambda: "k", device_type=lambda: "DeviceType.CUDA", start_ns=lambda: 5, duration_ns=lambda: 2,
        device_index=lambda: 0,
    )  # fmt: skip
    executions, launches = collect([event], offset_ns=0)
    assert executions == [Execution("k", 5, 7, "cuda:0", -1, 0)]
    assert launches == []
