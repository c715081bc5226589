"""Numbers as people read them: durations, counts, shares, sizes."""

from __future__ import annotations

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def duration_unit(ns: float) -> tuple[int, str]:
    """The unit in which a duration in ns reads best: (ns in the unit, its name)."""
    magnitude = abs(ns)
    for size, unit in _UNITS:
        if magnitude >= size:
            return size, unit
    return 1, "ns"


def significant(value: float) -> str:
    """Three significant digits, never an exponent, thousands separated."""
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def duration(ns: float | None) -> str:
    """A duration in ns with its unit (``41.2 ms``); ``–`` for none."""
    if ns is None:
        return "–"
    if ns == 0:
        return "0"
    size, unit = duration_unit(ns)
    if abs(ns) / size >= 999.5:  # would print as 1,000: take the next unit
        for bigger, name in _UNITS:
            if bigger == size * 1000:
                size, unit = bigger, name
    if unit == "ns":
        return f"{ns:,.0f} ns"
    return f"{significant(ns / size)} {unit}"


def count(value: float | None) -> str:
    """A whole number with thousands separators; ``–`` for none."""
    return "–" if value is None else f"{value:,.0f}"


def per_step(value: float | None) -> str:
    """A count a step: whole where it is whole, else with one decimal."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value - round(value)) < 0.05 else f"{value:,.1f}"


def share(value: float | None) -> str:
    """A fraction of one as per cent (``19.2 %``); ``–`` for none."""
    if value is None:
        return "–"
    percent = value * 100
    if 0 < abs(percent) < 0.05:
        return "< 0.1 %"
    return f"{percent:.1f} %"


def plural(number: float, one: str, many: str = "") -> str:
    """``1 step``, ``12 steps``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
