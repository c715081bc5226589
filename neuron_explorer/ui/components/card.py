"""A card: a heading and what belongs to it."""

from __future__ import annotations

from typing import Any

from dash import html


def card(title: Any, *children: Any, extra: str = "", aside: Any = None, element_id: str = "") -> html.Section:
    """``title``: text or components of the heading; ``aside``: right of it."""
    parts = title if isinstance(title, list) else [title]
    head = html.Div(
        [html.H2(parts, className="card-title"), *([html.Div(aside, className="card-aside")] if aside else [])],
        className="card-head",
    )
    named = {"id": element_id} if element_id else {}
    return html.Section([head, *children], className=f"card {extra}".strip(), **named)


def note(*text: Any) -> html.P:
    """What was left out or merged, in small print."""
    return html.P(list(text), className="note")


def segmented(label: str, choices: list[tuple[str, str, bool]], keep: str = "") -> html.Div:
    """Links side by side of which one is current: (text, URL, current).

    ``keep``: keys of the query, as it is when the link is followed, that stay in it.
    """
    return html.Div(
        [
            html.A(
                text,
                href=href,
                className="segment segment-current" if current else "segment",
                **({"aria-current": "true"} if current else {}),
                **({"data-keep": keep} if keep else {}),
            )
            for text, href, current in choices
        ],
        className="segmented",
        role="group",
        **{"aria-label": label},
    )
