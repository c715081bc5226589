"""Which part of a trace is written, from what a user says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..arrays import values_of

if TYPE_CHECKING:
    from ..store import Trace
    from . import Window

__all__ = ["of_steps", "of_times"]

_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_TIME: Final = re.compile(r"\s*(\d{1,18})(?:\.(\d{1,9}))?\s*(ns|us|µs|ms|s)?\s*")
_STEPS: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def of_times(text: str) -> Window:
    """``10ms-20ms``, ``1.5s-2s``, ``10-20ms``: times since the trace's start. Raises ``ValueError``."""
    parts = text.split("-")
    found = [_TIME.fullmatch(part) for part in parts]
    if len(found) != 2 or found[0] is None or found[1] is None or not found[1][3]:
        raise ValueError("give two times with a unit, such as 10ms-20ms (ns, us, ms or s)")
    unit = found[1][3]
    low, high = (_nanoseconds(f[1], f[2], f[3] or unit) for f in (found[0], found[1]))
    if low >= high:
        raise ValueError("the first time must be before the second")
    return low, high


def of_steps(trace: Trace, text: str) -> Window:
    """``7`` or ``3-7``: from the begin of the first of these steps to the end of the last. Raises ``ValueError``."""
    found = _STEPS.fullmatch(text)
    if found is None:
        raise ValueError("give the number of a step, or two, such as 3-7")
    low, high = int(found[1]), int(found[2] or found[1])
    rows = trace.read(("step", "start", "duration"), kinds=("step",))
    number, start, duration = (values_of(rows[name]) for name in ("step", "start", "duration"))
    inside = (number >= low) & (number <= high)
    if not inside.any():
        has = f"they are {int(number.min())}-{int(number.max())}" if len(number) else "it has none"
        raise ValueError(f"the trace has no such step; {has}")
    ends = start + duration.clip(0)
    return int(start[inside].min()), max(int(ends[inside].max()), int(start[inside].min()) + 1)


def _nanoseconds(whole: str, fraction: str | None, unit: str) -> int:
    scale = _UNITS[unit]
    return min(int(whole) * scale + int((fraction or "0").ljust(9, "0")) * scale // 10**9, (1 << 63) - 1)
