"""Executions on the device beside a recording: from torch.profiler, with a stand-in for a device."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

import neuron_explorer
from neuron_explorer.trace import device_spool
from neuron_explorer.trace.recorders import device_events, torch_private
from neuron_explorer.trace.recorders.device_events import DeviceEvents

torch = pytest.importorskip("torch")


class Device:
    """A device whose plugin reports what the test says; stands in for torch.profiler.profile."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.calls: list[str] = []
        self.launched: list[int] = []

    def __call__(self, *, activities):
        self.asked = activities
        return self

    def start(self):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")

    @property
    def profiler(self):
        return SimpleNamespace(kineto_results=SimpleNamespace(events=self.events))

    def events(self):
        found = []
        for number, at in enumerate(self.launched, start=1):
            found.append(event("launch", "cuda_runtime", "CPU", at, 100, number))
            found.append(event("kernel", "kernel", "CUDA", at + 1000, 500, number))
        return found


def event(name, activity, device, start, duration, correlation):
    values = {
        "name": name, "activity_type": activity, "device_type": f"DeviceType.{device}", "start_ns": start,
        "duration_ns": duration, "correlation_id": correlation, "device_index": 0, "device_resource_id": 0,
    }  # fmt: skip
    return SimpleNamespace(**{key: (lambda value=value: value) for key, value in values.items()})


@pytest.fixture
def device(monkeypatch):
    made = Device()
    monkeypatch.setattr(device_events, "unavailable", lambda: "")
    monkeypatch.setattr(device_events, "_wait_for_device", lambda: made.calls.append("wait"))
    monkeypatch.setattr(
        torch.profiler, "supported_activities",
        lambda: {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA},
    )  # fmt: skip
    monkeypatch.setattr(torch.profiler, "profile", made)
    return made


def test_on_the_cpu_nothing_is_started(monkeypatch, tmp_path):
    if torch_private.initialised_accelerator():
        pytest.skip("an accelerator is in use")

    def never(**_):
        raise AssertionError("torch.profiler was started")

    monkeypatch.setattr(torch.profiler, "profile", never)
    recorder = DeviceEvents()
    recorder.start()
    assert not recorder.started
    assert recorder.reason == "no accelerator was in use: everything ran on the host"
    with neuron_explorer.profile(tmp_path / "t.parquet") as profile:
        torch.ones(2).add(1)
        profile.step()
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        assert trace.metadata["capabilities"]["device_time"] == {"observed": False, "reason": recorder.reason}
        assert not [lane for lane in trace.metadata["lanes"] if lane["kind"] == "device"]


def test_only_device_activities_are_asked_for_and_the_device_is_waited_for(device, tmp_path):
    recorder = DeviceEvents()
    recorder.start()
    recorder.start()
    assert recorder.started
    assert device.asked == [torch.profiler.ProfilerActivity.CUDA]
    device.launched = [time.time_ns()]
    assert recorder.stop(tmp_path) == 1
    assert device.calls == ["start", "wait", "stop"]
    (kept,) = device_spool.read(tmp_path)
    assert (kept.names, kept.devices) == (["kernel"], ["cuda:0"])
    assert abs(int(kept.executions["start"][0]) - time.monotonic_ns()) < 60 * 10**9
    assert recorder.stop(tmp_path) == 0


def test_an_execution_gets_the_line_that_launched_it(device, tmp_path, monkeypatch):
    original = torch.Tensor.add_

    with neuron_explorer.profile(tmp_path / "t.parquet") as profile:
        x = torch.ones(200_000)
        for _ in range(3):
            before = time.time_ns()
            original(x, 1)  # the launching line
            device.launched.append((before + time.time_ns()) // 2)
        profile.step()
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        rows = trace.read(["kind", "name", "line", "correlation", "id", "device", "duration"]).to_pylist()
        observed = trace.metadata["capabilities"]["device_time"]
    assert observed["observed"]
    launching = {r["id"]: r for r in rows if r["name"] == "aten::add_.Tensor"}
    kernels = [r for r in rows if r["kind"] == "device"]
    assert [(r["device"], r["duration"]) for r in kernels] == [("cuda:0", 500)] * 3
    tied = [r for r in kernels if r["correlation"] in launching]
    assert tied  # how many depends on when this thread was scheduled
    assert all(r["line"] == launching[r["correlation"]]["line"] for r in tied)


@pytest.mark.parametrize("where", ["start", "stop"])
def test_a_plugin_that_fails_costs_only_the_device_rows(device, tmp_path, monkeypatch, where):
    def fails():
        raise RuntimeError("plugin\nbroke")

    monkeypatch.setattr(device, where, fails)
    if where == "stop":
        with pytest.warns(Warning, match="plugin broke"), neuron_explorer.profile(tmp_path / "t.parquet"):
            torch.ones(2).add(1)
    else:
        with neuron_explorer.profile(tmp_path / "t.parquet"):
            torch.ones(2).add(1)
    with neuron_explorer.load(tmp_path / "t.parquet") as trace:
        assert "aten::add.Tensor" in set(trace.read(["name"]).column("name").to_pylist())
        observed = trace.metadata["capabilities"]["device_time"]
    assert not observed["observed"]
    assert "plugin broke" in observed["reason"]


def test_the_programs_own_torch_profiler_goes_first(monkeypatch):
    monkeypatch.setattr(torch_private, "initialised_accelerator", lambda: "cuda")
    monkeypatch.setattr(device_events, "_activities", lambda: ["CUDA"])
    assert device_events.unavailable() == ""
    with torch.autograd.profiler.profile(use_kineto=True):
        assert "in use by the program" in device_events.unavailable()
    monkeypatch.setattr(device_events, "_activities", list)
    assert "reports no activity of cuda" in device_events.unavailable()
