"""Executions on the device, from torch.profiler's device activities alone.

No CPU activity is asked for, so operators are not recorded twice and no callback is added to
them. An execution is tied to its operator through the launch: the runtime call with the same
correlation number, whose time lies inside the operator that made it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from neuron_explorer.trace import device_spool
from neuron_explorer.trace.device_spool import Execution, Launch
from neuron_explorer.trace.notices import warn

__all__ = ["DeviceEvents", "collect", "unavailable"]

LIMITS = "what the device's plugin for torch.profiler reports; lost when the program is killed"


def unavailable() -> str:
    """Why executions on the device are not recorded, or "" when they can be. Starts nothing."""
    from neuron_explorer.trace.recorders import torch_private

    kind = torch_private.initialised_accelerator()
    if kind is None:
        return "no accelerator was in use: everything ran on the host"
    if kind == "neuron":
        from neuron_explorer.neuron import backend

        if backend.emulated():
            return "the device is emulated: every duration is what this machine's CPU took"
    if not _activities():
        return f"torch.profiler reports no activity of {kind} here"
    if _profiler_active():
        return "torch.profiler was in use by the program"
    return ""


class DeviceEvents:
    """Runs torch.profiler for the device beside a recording; does nothing without a device that reports."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self.reason = "not started"

    @property
    def started(self) -> bool:
        """Whether executions are being recorded."""
        return self._profiler is not None

    def start(self) -> None:
        """Begin, where torch reports a device activity. Trouble makes it unavailable, never the program."""
        if self._profiler is not None:
            return
        self.reason = unavailable()
        if self.reason:
            return
        try:
            import torch

            profiler = torch.profiler.profile(activities=_activities())
            profiler.start()
            self._profiler = profiler
        except Exception as error:  # a plugin may fail in any way
            self.reason = f"torch.profiler could not record the device: {' '.join(str(error).split())[:200]}"

    def stop(self, spool: Path | None) -> int:
        """End, and keep what was recorded in ``spool`` (None: nowhere). Returns the number of executions."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return 0
        try:
            _wait_for_device()
            profiler.stop()
            if spool is None:
                return 0
            results = profiler.profiler.kineto_results
            executions, launches = collect(results.events(), offset_ns=_unix_to_monotonic())
            return device_spool.write(spool, os.getpid(), executions, launches)
        except Exception as error:
            self.reason = f"torch.profiler's events could not be read: {' '.join(str(error).split())[:200]}"
            warn(self.reason)
            return 0


def collect(events: Iterable[Any], offset_ns: int) -> tuple[list[Execution], list[Launch]]:
    """Executions and launches among Kineto's events. ``offset_ns`` is added to their times."""
    executions, launches = [], []
    for event in events:
        activity = str(_ask(event, "activity_type", "")).lower()
        start = int(event.start_ns()) + offset_ns
        correlation = int(_ask(event, "correlation_id", 0) or 0)
        device = str(event.device_type()).rpartition(".")[2].lower()
        if device == "cpu":
            if correlation and ("runtime" in activity or "driver" in activity):
                launches.append(Launch(start, int(_ask(event, "device_resource_id", 0)), correlation))
            continue
        if "annotation" in activity or _ask(event, "is_user_annotation", False) or "runtime" in activity:
            continue
        if device == "privateuseone" or device == "privateuse1":
            device = _private_name()
        end = start + max(0, int(event.duration_ns()))
        executions.append(
            Execution(
                str(event.name())[:1000], start, end, f"{device}:{int(event.device_index())}",
                int(_ask(event, "device_resource_id", -1)), correlation,
            )
        )  # fmt: skip
    return executions, launches


def _ask(event: Any, name: str, default: Any) -> Any:
    """An attribute that not every torch has."""
    method = getattr(event, name, None)
    return default if method is None else method()


def _activities() -> list[Any]:
    torch = sys.modules.get("torch")
    profiler = getattr(torch, "profiler", None)
    if profiler is None:
        return []
    try:
        supported = profiler.supported_activities()
    except Exception:
        return []
    return [activity for activity in supported if activity != profiler.ProfilerActivity.CPU]


def _profiler_active() -> bool:
    import torch

    ask = getattr(torch._C._autograd, "_profiler_enabled", None)
    return bool(ask()) if ask is not None else False


def _wait_for_device() -> None:
    import torch

    torch.accelerator.synchronize()  # what still runs would be cut


def _private_name() -> str:
    import torch

    return str(torch._C._get_privateuse1_backend_name())


def _unix_to_monotonic() -> int:
    """What to add to a Unix time in ns for CLOCK_MONOTONIC; the closest pair of several readings."""
    best, distance = 0, 1 << 62
    for _ in range(5):
        before, unix, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after - before < distance:
            best, distance = (before + after) // 2 - unix, after - before
    return best
