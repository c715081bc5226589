"""Executions on the device, as they are kept in a spool until the trace is built.

One ``device-<pid>.npz`` per process: a table of executions, a table of the launches that led to
them, and the names. Times are CLOCK_MONOTONIC ns, as in the records of the host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

EXECUTION: Final = np.dtype(
    [("start", "<i8"), ("end", "<i8"), ("name", "<i4"), ("device", "<i4"), ("stream", "<i8"), ("correlation", "<i8")]
)
LAUNCH: Final = np.dtype([("time", "<i8"), ("os_thread", "<i8"), ("correlation", "<i8")])
MOST_EXECUTIONS: Final = 20_000_000
_MOST_BYTES: Final = 4 << 30


@dataclass(frozen=True)
class DeviceSpool:
    """The executions of one process. ``devices`` and ``names`` are what the tables' numbers mean."""

    pid: int
    executions: np.ndarray  # EXECUTION, by start
    launches: np.ndarray  # LAUNCH, by correlation
    names: list[str]
    devices: list[str]


@dataclass(frozen=True)
class Execution:
    """One execution: times in ns, device as torch writes it, the number that its launches share."""

    name: str
    start: int
    end: int
    device: str
    stream: int
    correlation: int


@dataclass(frozen=True)
class Launch:
    """When and on which thread (the system's id) the host launched; 0 is an unknown thread."""

    time: int
    os_thread: int
    correlation: int


def write(spool: Path, pid: int, executions: Iterable[Execution], launches: Iterable[Launch]) -> int:
    """Keep a process's executions; returns how many."""
    names: dict[str, int] = {}
    devices: dict[str, int] = {}
    rows = [
        (e.start, e.end, names.setdefault(e.name, len(names)), devices.setdefault(e.device, len(devices)), e.stream,
         e.correlation)
        for e in executions
    ]  # fmt: skip
    if not rows:
        return 0
    texts = json.dumps({"names": list(names), "devices": list(devices)}).encode()
    made = np.sort(np.array(rows, EXECUTION), order="start", kind="stable")
    calls = np.sort(np.array([(x.time, x.os_thread, x.correlation) for x in launches], LAUNCH), order="correlation")
    with (spool / f"device-{pid}.npz").open("wb") as file:
        np.savez(file, executions=made, launches=calls, texts=np.frombuffer(texts, np.uint8))
    return len(made)


def read(spool: Path) -> list[DeviceSpool]:
    """The device files of a spool; one that cannot be read counts as missing."""
    found = []
    for path in sorted(spool.glob("device-*.npz")):
        digits = path.stem.partition("-")[2]
        if not digits.isdecimal() or path.stat().st_size > _MOST_BYTES:
            continue
        try:
            found.append(_read(path, int(digits)))
        except Exception:  # whatever a file that was cut off makes of itself
            continue
    return found


def _read(path: Path, pid: int) -> DeviceSpool:
    with np.load(path, allow_pickle=False) as tables:
        executions, launches = tables["executions"], tables["launches"]
        texts: Any = json.loads(tables["texts"].tobytes())
    if executions.dtype != EXECUTION or launches.dtype != LAUNCH or executions.ndim != 1 or launches.ndim != 1:
        raise ValueError("other tables")
    names, devices = [str(n) for n in texts["names"]], [str(d) for d in texts["devices"]]
    known = (executions["name"] >= 0) & (executions["name"] < len(names))
    known &= (executions["device"] >= 0) & (executions["device"] < len(devices))
    executions = np.sort(executions[known][:MOST_EXECUTIONS], order="start", kind="stable")
    return DeviceSpool(pid, executions, np.sort(launches, order="correlation", kind="stable"), names, devices)
