"""The filter of steps that every page of figures follows: steady steps, the whole run, or a range of steps.

It stands in the address as ``period``: nothing for steady steps, ``all``, or ``3-7``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dash import html

from neuron_explorer.analysis.selection import select, step_range
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.card import segmented

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.page import Search


def period_of(trace: Trace, search: Search) -> str:
    """``auto``, ``all`` or a range of steps that the trace has; anything else in the address is ``auto``."""
    given = search.get("period", "")
    if given == "all":
        return "all"
    if step_range(given) is not None:
        try:
            cached(trace, select, given)
        except ValueError:
            return "auto"
        return given
    return "auto"


def in_address(period: str) -> str:
    """The period as the address holds it."""
    return "" if period == "auto" else period


def period_filter(trace: Trace, period: str, url: Callable[[str], str], keep: str = "") -> list[Any]:
    """The choices, and a field for a range; nothing where there are no steps to choose from.

    ``url``: the page's address with another period. ``keep``: as for ``segmented``.
    """
    usual, everything = cached(trace, select, "auto"), cached(trace, select, "all")
    if not everything.step_numbers:
        return []
    choices = [("Steady steps", url(""), period == "auto")] if usual.period == "steady" else []
    choices.append(("Whole run", url("all"), period == "all" or (period == "auto" and not choices)))
    steps = everything.step_numbers
    given = step_range(period)
    shown = "" if given is None else f"{given[0]}-{given[1]}"
    title = f"A step or a range of steps, {min(steps)} to {max(steps)}; Enter applies it"
    box = html.Div(
        className="step-range step-range-set" if shown else "step-range", title=title,
        **{"data-input": "steps", "data-placeholder": "steps 3-7", "data-label": title, "data-value": shown},
    )  # fmt: skip
    return [html.Div([segmented("Steps in the figures", choices, keep=keep), box], className="period-filter")]
