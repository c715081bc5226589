"""Local times of a log without a year or a zone, on the clock of its timed events."""

from __future__ import annotations

import calendar
from typing import Final

__all__ = ["LogClock", "plausible"]

_QUARTER: Final = 15 * 60 * 1_000_000_000
_HALF_YEAR: Final = 183 * 86_400 * 1_000_000_000
_FIRST: Final = 1_420_070_400 * 1_000_000_000  # 2015
_LAST: Final = 4_102_444_800 * 1_000_000_000  # 2100

Stamp = tuple[int, int, int, int, int, int]
"""Month, day, hour, minute, second, nanosecond."""


def plausible(time: int) -> bool:
    """Whether Unix nanoseconds are of a time at which torch.compile can have run."""
    return _FIRST <= time <= _LAST


class LogClock:
    """Local stamps to Unix nanoseconds. ``year`` (of the file) is used until an event tells the time."""

    def __init__(self, year: int) -> None:
        self._year = year
        self._offset = 0
        self._set = False

    def calibrate(self, stamp: Stamp, time: int) -> None:
        """The record with this stamp was written at about ``time``, Unix nanoseconds. The first one counts."""
        if self._set or not plausible(time):
            return
        year = _year_of(time)
        best = None
        for candidate in (year, year - 1, year + 1):
            local = _utc(candidate, stamp)
            if local is not None and (best is None or abs(local - time) < abs(best[1] - time)):
                best = candidate, local
        if best is None or abs(best[1] - time) > 2 * 86_400 * 1_000_000_000:
            return  # another clock, or a damaged stamp
        self._year, self._set = best[0], True
        self._offset = round((best[1] - time) / _QUARTER) * _QUARTER

    def time(self, stamp: Stamp) -> int:
        """Unix nanoseconds, -1 for a stamp that no calendar has."""
        local = _utc(self._year, stamp)
        return -1 if local is None else local - self._offset

    def near(self, stamp: Stamp, other: int) -> int:
        """As :meth:`time`; ``other`` says which side of New Year it is on."""
        time = self.time(stamp)
        if time < 0 or other < 0 or abs(time - other) < _HALF_YEAR:
            return time
        moved = _utc(self._year + (1 if time < other else -1), stamp)
        return time if moved is None else moved - self._offset


def _utc(year: int, stamp: Stamp) -> int | None:
    month, day, hour, minute, second, nanosecond = stamp
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    if day > calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, hour, minute, second)) * 1_000_000_000 + nanosecond


def _year_of(time: int) -> int:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(time // 1_000_000_000, timezone.utc).year
