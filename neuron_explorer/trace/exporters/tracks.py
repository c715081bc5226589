"""Tracks on which slices lie one inside the other or one after the other, never across."""

from __future__ import annotations

from typing import Final

from .places import Place, Places

__all__ = ["Tracks"]

_MOST: Final = 200
"""Tracks of one lane; what would need more lies across on the last."""


class Tracks:
    """Gives every slice of a lane, in order of start, the first track on which it fits."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lanes: dict[int, list[tuple[Place, list[float]]]] = {}

    def of(self, lane: int, start: int, duration: int) -> Place:
        """The place of a slice; times in ns, a duration below 0 has no end."""
        tracks = self._lanes.get(lane)
        if tracks is None:
            tracks = self._lanes[lane] = [(self._places.of(lane), [])]
        end = start + duration if duration >= 0 else float("inf")
        for place, ends in tracks:
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or ends[-1] >= end:
                if end > start:
                    ends.append(end)
                return place
        if len(tracks) >= _MOST:
            return tracks[-1][0]
        place = self._places.another(tracks[0][0], len(tracks) + 1)
        tracks.append((place, [end]))
        return place
