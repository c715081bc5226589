"""When something is an alert, and how severe it is: every threshold of the alerts, in one place.

``docs/alerts.md`` explains them. They are plain numbers on purpose: a run that must not recompile
is a matter of counts, and a count is the same on every machine; a share of the run is not.
"""

from __future__ import annotations

from typing import Final

SEVERITIES: Final = ("high", "medium", "low")
"""From worst to mildest."""

HIGH_SHARE: Final = 0.10
"""An alert that costs this share of the run is high."""

MEDIUM_SHARE: Final = 0.01
"""And at least medium from here on."""

HIGH_ONCE_NS: Final = 30_000_000_000
"""What happened once is high only where it took so long: in a short run any compilation is a large share."""

HIGH_COUNT: Final = 6
"""So many times for one reason at one place is high whatever it cost here: it does not stop by itself."""

MEDIUM_COUNT: Final = 2
"""Once may be Dynamo learning that a size varies; twice is a pattern."""

NEAR_LIMIT: Final = 2
"""With so few compilations left before the recompile limit an alert is high."""

LATE_STEP: Final = 2
"""Steps from this one on should need nothing new: the first two make the optimizer's state and caches."""

CHURN_STEPS: Final = 3
"""A line that brings new shapes in so many late steps keeps on bringing them."""

CHURN_SHAPES: Final = 4
"""Without steps: so many distinct shapes of one operator on one line."""

HIGH_CHURN: Final = 10
"""So many late artifacts are high."""

BREAK_COUNT: Final = 3
"""A graph break at one place in so many compilations is medium."""

MOST_ALERTS: Final = 200
"""Alerts kept; those beyond (the mildest) are counted."""

MOST_OCCURRENCES: Final = 50
"""Occurrences listed in one alert; those beyond are counted."""


def severity(cost_ns: float, cost_share: float, count: int, *, left: int = -1, least: str = "low") -> str:
    """The severity by cost and count.

    ``cost_share``: cost as a fraction of the run. ``left``: compilations left before the limit,
    -1 where it is not known. ``least``: never milder than this.
    """
    dear = cost_share >= HIGH_SHARE and (count >= MEDIUM_COUNT or cost_ns >= HIGH_ONCE_NS)
    if dear or count >= HIGH_COUNT or 0 <= left <= NEAR_LIMIT:
        found = "high"
    elif cost_share >= MEDIUM_SHARE or count >= MEDIUM_COUNT:
        found = "medium"
    else:
        found = "low"
    return min(found, least, key=SEVERITIES.index)
