"""One step of several ranks under each other, on the clock of one of them.

Ranks are laid over each other by their collectives only. Where these do not bound the difference between two
clocks, there is no picture: by the ranks' own clocks it would show skew that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.ranks.clocks import Clock
from neuron_explorer.comparing.aligned import Window
from neuron_explorer.ui.step_pair import COLOURED, Side, costs_of, drawn_side, place_class, plain

MOST_RANKS: Final = 8
"""Under each other in one picture."""


def rank_steps(
    sides: Sequence[tuple[Side, int, Clock]], t0: int = 0, t1: int | None = None
) -> dict[str, Any]:  # fmt: skip
    """The steps as JSON, as ``step_pair`` does it: ``sides`` are traces with a step, their rank and clock.

    ``t0`` and ``t1``: the window in ns since the first of the steps began. A side's ``begin`` and ``end`` are when its
    step did, ``error`` the bound in ns of what its clock may be off. ``each`` of a place: its cost in each side.
    """
    begins = [_at(clock, side.window.start) for side, _, clock in sides]
    origin = min(begins)
    places: dict[tuple[str, int, str], int] = {}
    drawn, costs = [], []
    used: dict[int, int] = {}
    names: dict[str, int] = {}
    for (side, rank, clock), begin in zip(sides, begins, strict=True):
        lines = {line: places.setdefault(line, len(places)) for line in sorted(side.lines)}
        known = Side(side.name, side.trace, side.window, lines)
        costs.append(costs_of(known))
        shift = begin - origin
        first = max(0, t0 - shift)
        spans = drawn_side(known, first, None if t1 is None else max(first + 1, t1 - shift), used, names)
        rate = 1 + clock.drift
        spans["spans"]["start"] = [round(shift + start * rate) for start in spans["spans"]["start"]]
        error = round(float(clock.error_at(side.window.start)))
        about = f", clock ±{q.duration(error)}" if clock.via >= 0 else ", whose clock this is"
        step = "the run" if side.window.number is None else f"step {side.window.number:,}"
        spans |= {
            "begin": shift, "end": shift + side.window.duration, "error": error, "rank": rank,
            "title": f"rank {rank}: {step}, {q.duration(side.window.duration)}{about}",
        }  # fmt: skip
        drawn.append(spans)
    classes = place_class(costs)
    found = list(places)
    return {
        "whole": max(side["end"] for side in drawn),
        "sides": drawn,
        "names": [plain(name, 160) for name in names],
        "places": [_place(found[at], [c.get(at) for c in costs], classes.get(at, COLOURED)) for at in used],
    }


def step_of(windows: Sequence[Window], number: int) -> Window:
    """The step of that number, else the one nearest to it."""
    return min(windows, key=lambda w: (abs((w.number if w.number is not None else 0) - number), w.start))


def _at(clock: Clock, time: int) -> int:
    import numpy as np

    return round(float(clock.to_reference(np.array([time]))[0]))


def _place(line: tuple[str, int, str], each: Sequence[tuple[int, int] | None], number: int) -> dict[str, Any]:
    name = line[0].replace("\\", "/").rsplit("/", 1)[-1]
    return {"text": plain(f"{name}:{line[1]}", 120), "function": plain(line[2], 120), "how": "same", "class": number,
            "each": list(each)}  # fmt: skip
