"""A step of chosen ranks under each other, and what says which. ``assets/timeline-pair.js`` draws it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from dash import dcc, html

from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.page import page_url
from neuron_explorer.ui.rank_steps import MOST_RANKS

ROOT: Final = "ranks-timeline"
MOST_CHOICES: Final = 64
"""Ranks that are offered one by one; of more the chosen ones and the first."""


def rank_timeline(
    trace_id: str, there: Sequence[int], chosen: Sequence[int], step: int, steps: Sequence[int], refusal: str,
    url: Callable[..., str], ids: dict[int, str],
) -> html.Section:  # fmt: skip
    """The card. ``there``: ranks with a trace; ``steps``: numbers that can be shown; ``refusal``: why these ranks
    cannot be laid over each other, "" where they can. ``url(ranks=…, step=…)``: of the page with that choice.
    """
    choice = html.Div([_steps(step, steps, url), _ranks(there, chosen, url)], className="pair-choice")
    opened = html.P(
        ["Whole timelines: ", *_spaced([
            html.A(f"rank {rank}", href=page_url(ids[rank], "/timeline", {"step": str(step)})) for rank in chosen
            if rank in ids
        ])],
        className="note",
    )  # fmt: skip
    if refusal:
        body: list[Any] = [html.P(f"{refusal[:1].upper()}{refusal[1:]}", className="empty")]
    else:
        query = urlencode({"ranks": ",".join(map(str, chosen)), "step": step})
        address = f"/api/v1/ranks/{trace_id}/spans?{query}"
        drawn = html.Div(id=ROOT, className="pair export-drawn", **{"data-url": address})
        body = [exportable_chart(drawn, "ranks-of-a-step"), dcc.Store(id="ranks-timeline-mounted")]
    return card(
        ["One step of several ranks ", html.Span("under each other, on one clock", className="card-unit")],
        choice, *body, opened,
        note("Clocks are aligned by collectives that the ranks share: no rank can finish one before the last has begun "
             "it. The bound of the error stands beside each rank."),
    )  # fmt: skip


def _steps(step: int, steps: Sequence[int], url: Callable[..., str]) -> html.Span:
    before = max((s for s in steps if s < step), default=None)
    after = min((s for s in steps if s > step), default=None)
    arrows = [
        html.A(text, href=url(step=str(to)), className="segment", title=f"{title} step: {to:,}")
        if to is not None else html.Span(text, className="segment muted", **{"aria-hidden": "true"})
        for text, title, to in (("‹", "Previous", before), ("›", "Next", after))
    ]  # fmt: skip
    return html.Span([html.Span(arrows, className="segmented"), html.Span(f" step {step:,}")])


def _ranks(there: Sequence[int], chosen: Sequence[int], url: Callable[..., str]) -> html.Span:
    offered = sorted({*chosen, *sorted(there)[: MOST_CHOICES - len(chosen)]})
    picked = set(chosen)
    links = []
    for rank in offered:
        on = rank in picked
        to = sorted(picked - {rank}) if on else sorted([*chosen, rank])
        if not to or len(to) > MOST_RANKS:
            why = "one rank stays" if not to else f"at most {MOST_RANKS} under each other"
            links.append(html.Span(str(rank), className=f"segment {'segment-current' if on else 'muted'}", title=why))
            continue
        links.append(html.A(
            str(rank), href=url(ranks=",".join(map(str, to))), className="segment segment-current" if on else "segment",
            title=f"{'Take out' if on else 'Show'} rank {rank}", **({"aria-current": "true"} if on else {}),
        ))  # fmt: skip
    more = [html.Span(f" of {len(there):,}", className="muted")] if len(offered) < len(there) else []
    return html.Span([html.Span("ranks ", className="muted"),
                      html.Span(links, className="segmented rank-choice", role="group", **{"aria-label": "Ranks"}),
                      *more])  # fmt: skip


def _spaced(parts: list[Any]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        found += [part, " "]
    return found
