"""The bar of filters under the top bar: the same on every page, in the address, kept from page to page.

A choice is a link. The script (``assets/filters.js``) changes only the filter's own key of the address
as it is when the link is followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dash import html

from neuron_explorer.analysis.filters import KEYS, NAMES, Choices, Filter, step_range
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.filters import Reading
from neuron_explorer.ui.page import Page, page_url

MOST_SEGMENTS: Final = 4
"""More ranks, devices or processes than this are a list to choose from."""
_WHOLE: Final = "this page is about the whole trace"

Choice = tuple[str, str]
"""Value in the address, "" for the usual one; and its name."""


def filter_bar(page: Page, trace_id: str, reading: Reading, search: Mapping[str, str]) -> list[Any]:
    """The bar's content; nothing on a page without filters as long as none is chosen."""
    chosen = reading.chosen.in_address()
    if not page.filters and not page.unfiltered and not chosen and not reading.wrong:
        return []
    offered = _offered(reading.choices, reading.chosen, page.whole_run)
    items: list[Any] = []
    for key in KEYS:
        if key in page.filters and key in offered:
            items.append(_filter(key, offered[key], chosen.get(key, ""), page, trace_id, search, reading.choices))
    off = [key for key in KEYS if key not in page.filters and key in {*offered, *chosen}]
    if off:
        items.append(_not_here(off, reading.chosen, page))
    if reading.wrong:
        items.append(html.Span(f"Ignored: {'; '.join(reading.wrong)}.", className="filters-wrong", role="status"))
    if chosen or reading.wrong:
        items.append(
            html.A("Clear filters" if len(chosen) > 1 else "Clear filter", className="filters-clear",
                   href=_url(page, trace_id, search, dict.fromkeys(KEYS, "")), **{"data-filter": "*"})
        )  # fmt: skip
    return items


def _offered(choices: Choices, chosen: Filter, whole_run: bool) -> dict[str, list[Choice]]:
    """What there is to choose: only where there is more than one.

    ``whole_run``: without a choice the page is about all steps and all processes.
    """
    found: dict[str, list[Choice]] = {}
    if choices.steps and whole_run:
        found["period"] = [("all" if chosen.period == "all" else "", "Whole run")]
    elif choices.steps:
        usual = [("", "Steady")] if choices.steady else []
        found["period"] = [*usual, ("all" if usual else "", "Whole run")]
    phases = [phase for phase in choices.phases if phase not in chosen.phases] + list(chosen.phases)
    if len(phases) > 1 or chosen.phases:
        ordered = [phase for phase in ("forward", "backward", "recompute", "optimizer", "other") if phase in phases]
        found["phase"] = [("", "All"), *((phase, phase.capitalize()) for phase in ordered)]
    if len(choices.ranks) > 1:
        found["rank"] = [("", "All"), *((str(rank), str(rank)) for rank in choices.ranks)]
    if len(choices.devices) > 1:
        found["device"] = [("", "All"), *((device, plain(device, 40)) for device in choices.devices)]
    if len(choices.processes) > max(len(choices.ranks), 1):
        others = [(p, name) for p, name in choices.processes if whole_run or name != "main" or p == chosen.process]
        named = ((str(pid), f"{plain(name, 30)} {pid}".strip()) for pid, name in others)
        found["process"] = [("", "All" if whole_run else "Main"), *named]
    return found


def _filter(
    key: str, offered: Sequence[Choice], value: str, page: Page, trace_id: str, search: Mapping[str, str],
    choices: Choices,
) -> html.Div:  # fmt: skip
    name = NAMES[key].capitalize()
    several = value.split(",") if key == "phase" else [value]
    controls: list[Any]
    if key in ("rank", "device", "process") and len(offered) > MOST_SEGMENTS:
        controls = [_list(key, offered, value)]
    else:
        controls = [_segments(name, key, offered, several, page, trace_id, search)]
    if key == "period":
        controls.append(_range(value, choices.steps))
    return html.Div(
        [html.Span(name, className="filter-name"), *controls], className="filter filter-set" if value else "filter"
    )


def _segments(
    name: str, key: str, offered: Sequence[Choice], current: Sequence[str], page: Page, trace_id: str,
    search: Mapping[str, str],
) -> html.Div:  # fmt: skip
    links = []
    for value, text in offered:
        here = value in current
        kind = " segment-current" + ("" if value else " segment-usual") if here else ""
        links.append(
            html.A(
                text, href=_url(page, trace_id, search, {key: value}), className=f"segment{kind}",
                **{"data-filter": key, "data-value": value}, **({"aria-current": "true"} if here else {}),
            )
        )  # fmt: skip
    return html.Div(links, className="segmented", role="group", **{"aria-label": name})


def _list(key: str, offered: Sequence[Choice], value: str) -> html.Div:
    # A new key is a new element: the script fills each once.
    return html.Div(
        className="filter-list filter-list-set" if value else "filter-list", key=f"{key}={value}",
        **{"data-choose": key, "data-options": json.dumps(list(offered)), "data-value": value,
           "data-label": NAMES[key].capitalize()},
    )  # fmt: skip


def _range(value: str, steps: tuple[int, ...]) -> html.Div:
    given = step_range(value)
    shown = "" if given is None else f"{given[0]}-{given[1]}"
    title = f"A step or a range of steps, {min(steps)} to {max(steps)}; Enter applies it"
    return html.Div(
        className="step-range step-range-set" if shown else "step-range", title=title, key=f"steps={shown}",
        **{"data-input": "steps", "data-placeholder": "steps 3-7", "data-label": title, "data-value": shown},
    )  # fmt: skip


def _not_here(keys: Sequence[str], chosen: Filter, page: Page) -> html.Span:
    """Filters that the page does not follow, and why. What is chosen of them is struck out."""
    words = chosen.words
    active = [html.S(words[key]) for key in keys if key in words]
    said: list[Any] = [part for item in active for part in (item, " ")] or [
        "No filters" if not page.filters else f"No filter of {' and '.join(NAMES[key] for key in keys)}", " "
    ]  # fmt: skip
    said.append(f"{'not applied ' if active else ''}here: {page.unfiltered or _WHOLE}.")
    return html.Span(said, className="filters-off")


def _url(page: Page, trace_id: str, search: Mapping[str, str], change: Mapping[str, str]) -> str:
    return page_url(trace_id, page.path, {**search, **change})
