"""The filters of an address, as every page reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_explorer.analysis.filter_choices import filter_choices
from neuron_explorer.analysis.filters import Choices, Filter
from neuron_explorer.analysis.scan import main_scan
from neuron_explorer.analysis.selection import select
from neuron_explorer.ui.cache import cached

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class Reading:
    """``chosen``: what the trace can answer. ``wrong``: in words, what of the address is ignored."""

    chosen: Filter
    wrong: tuple[str, ...]
    choices: Choices


def read_filters(trace: Trace, search: Mapping[str, str]) -> Reading:
    """The filters of an address. Combinations that the trace does not have (a process of another rank) are ignored."""
    choices = cached(trace, filter_choices)
    chosen, wrong = Filter.from_search(search, choices)
    try:
        if chosen.rank is not None or chosen.process is not None:  # any other is good as it stands
            cached(trace, select, chosen)
    except ValueError as error:
        return Reading(Filter(), (*wrong, str(error)), choices)
    return Reading(chosen, wrong, choices)


def filter_of(trace: Trace, search: Mapping[str, str]) -> Filter:
    """The filters that a page's figures follow."""
    main_scan(trace)  # the figures need it, and it tells the steps that may be asked for
    return read_filters(trace, search).chosen
