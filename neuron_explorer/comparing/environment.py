"""What differs around the program between two sides, and whether their times can be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from neuron_explorer.analysis.plain import plain

NOT_OBSERVED: Final = "not observed"
OF_THE_PROGRAM: Final = ("threads",)
"""What a program sets itself: where both sides ran in turn on one machine, such a difference is a change of it."""

Apart = tuple[tuple[str, str, str], ...]


def apart(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> Apart:
    """(name, before, after) of each fact that differs; the environment of each run of both sides is given.

    A side of which the runs differ among themselves is apart, too: it is of no one environment.
    """
    found = []
    for name in dict.fromkeys(name for environment in (*before, *after) for name in environment):
        one, two = (
            sorted({environment.get(name, NOT_OBSERVED) for environment in side}) for side in (before, after)
        )
        if one != two or len(one) > 1:
            found.append((name, " or ".join(one), " or ".join(two)))
    return tuple(found)


def why_not_timed(differing: Apart, *, interleaved: bool) -> str:
    """Why times of the sides are not compared, with the facts that differ; "" where they are."""
    facts = [
        f"{name} was {plain(before, 60)}, is {plain(after, 60)}"
        for name, before, after in differing
        if not (interleaved and name in OF_THE_PROGRAM)
    ]
    return f"the environments differ: {'; '.join(facts)}" if facts else ""
