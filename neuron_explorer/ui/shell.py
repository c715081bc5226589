"""What every page has around it: the top bar, the navigation, and messages in place of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.facts import RunFacts
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.page import Page, page_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_explorer.ui.registry import Entry

HOME = "/overview"
"""The page of a trace that opens first."""


def frame() -> html.Div:
    """The whole page before anything is known; the routing callback fills it."""
    return html.Div(
        [
            dcc.Location(id="url", refresh="callback-nav"),
            dcc.Store(id="page-key"),
            html.A("Skip to the content", href="#content", className="skip-link"),
            html.Header(
                [
                    html.A("Neuron Explorer", href="/", className="brand"),
                    html.Div(id="topbar-trace", className="topbar-trace"),
                    html.Div(
                        [
                            html.Div(id="quick-search", **field("search", "Search ops, lines, modules, shapes")),
                            html.Kbd("/", className="quick-search-key"),
                        ],
                        className="quick-search",
                        role="search",
                    ),
                    _theme_switch(),
                ],
                className="topbar",
            ),
            html.Nav(id="nav", className="nav", **{"aria-label": "Pages"}),
            html.Main(
                html.Div("Loading …", className="loading", role="status"),
                id="content",
                className="content",
                tabIndex=-1,
            ),
        ],
        id="shell",
        className="shell",
    )


def field(kind: str, placeholder: str, **more: str) -> dict[str, str]:
    """Attributes of a box that the script turns into a text field."""
    return {"data-input": kind, "data-placeholder": placeholder, **{f"data-{k}": v for k, v in more.items()}}


def _theme_switch() -> html.Div:
    choices = (("light", "Light"), ("dark", "Dark"), ("system", "System"))
    return html.Div(
        [
            html.Button(name, type="button", className="theme-choice", **{"data-theme-choice": key})
            for key, name in choices
        ],
        id="theme-switch",
        className="segmented theme-switch",
        role="group",
        **{"aria-label": "Theme"},
    )


def topbar(entry: Entry, facts: RunFacts | None, entries: Sequence[Entry]) -> list[Any]:
    """The trace's name (a picker when there are several) and what it is."""
    items: list[Any] = []
    if len(entries) > 1:
        items.append(
            html.Details(
                [
                    html.Summary(entry.name, className="trace-name", title="Other traces"),
                    html.Div(
                        [
                            html.A(e.name, href=page_url(e.id, HOME), className="picker-link")
                            for e in entries
                            if e.id != entry.id
                        ],
                        className="picker",
                    ),
                ],
                className="trace-picker",
            )
        )
    else:
        items.append(html.Span(entry.name, className="trace-name", title=entry.name))
    if facts is None:
        return items
    items.append(chip(facts.device, "Device of the recorded program", "chip-long"))
    if facts.emulated:
        items.append(chip("emulated", "No device: times are what the CPU took", "chip-warning"))
    items.append(chip(q.plural(facts.events, "event"), "Events in the trace"))
    torch = facts.versions.get("torch")
    if torch:
        items.append(chip(f"torch {torch}", "Version of the recorded program", "chip-long"))
    if facts.losses.get("dropped"):
        items.append(chip(f"{q.count(facts.losses['dropped'])} dropped", "Events lost while recording", "chip-warning"))
    return items


def chip(text: str, title: str = "", extra: str = "") -> html.Span:
    """A small fact in the top bar or beside a heading."""
    return html.Span(plain(text, 80), className=f"chip {extra}".strip(), title=title)


def navigation(pages: Sequence[Page], trace_id: str, current: str, keep: dict[str, str]) -> list[Any]:
    """Links to the pages by section. ``keep``: filters that stay in the URL."""
    items: list[Any] = []
    section = ""
    for page in pages:
        if page.section != section:
            section = page.section
            items.append(html.Div(section, className="nav-section"))
        here = page.path == current
        items.append(
            html.A(
                page.name,
                href=page_url(trace_id, page.path, keep),
                className="nav-link nav-link-current" if here else "nav-link",
                **({"aria-current": "page"} if here else {}),
            )
        )
    return items


def message(title: str, *paragraphs: Any) -> html.Section:
    """A state in place of a page: what is wrong or missing, and what to do."""
    return html.Section(
        [html.H1(title, className="message-title"), *(html.P(p) for p in paragraphs)], className="card message"
    )


def picker(entries: Sequence[Entry]) -> html.Section:
    """The list of traces, when several are served."""
    return html.Section(
        [
            html.H1("Traces", className="card-title"),
            html.Ul(
                [html.Li(html.A(e.name, href=page_url(e.id, HOME), className="mono")) for e in entries],
                className="picker-list",
            ),
        ],
        className="card",
    )
