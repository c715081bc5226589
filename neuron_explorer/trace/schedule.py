"""Which steps are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Phase", "Schedule"]

Phase = Literal["wait", "warmup", "active"]


@dataclass(frozen=True)
class Schedule:
    """Cycles of steps: ``wait`` are not recorded, ``warmup`` are recorded and marked as warm-up,
    ``active`` are recorded. After ``repeat`` cycles (0: never) nothing more is recorded.
    """

    wait: int
    warmup: int
    active: int
    repeat: int = 0

    def __post_init__(self) -> None:
        for name in ("wait", "warmup", "active", "repeat"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"schedule: {name} must be a whole number of steps, not {value!r}")
        if self.active == 0:
            raise ValueError("schedule: active must be at least 1, or nothing would be recorded")

    def phase(self, step: int) -> Phase:
        """What happens in step number ``step`` (from 0)."""
        length = self.wait + self.warmup + self.active
        cycle, position = divmod(step, length)
        if self.repeat and cycle >= self.repeat:
            return "wait"
        if position < self.wait:
            return "wait"
        return "warmup" if position < self.wait + self.warmup else "active"

    def opens_window(self, step: int) -> bool:
        """Whether step number ``step`` is the first active one of its cycle."""
        length = self.wait + self.warmup + self.active
        return self.phase(step) == "active" and step % length == self.wait + self.warmup
