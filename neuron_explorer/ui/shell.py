"""What every page has around it: the top bar, the navigation, and messages in place of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.facts import RunFacts
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.page import Page, page_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_explorer.ui.registry import Description, Entry, Registry

HOME = "/overview"
HOME_OF_A_RUN = "/ranks"
"""Where the explorer begins when all of its traces are ranks of one run."""
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
            html.Div(id="banner", className="banner", role="status"),
            html.Nav(id="nav", className="nav", **{"aria-label": "Pages"}),
            html.Div(id="filters", className="filters", role="region", **{"aria-label": "Filters"}),
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


def topbar(
    entry: Entry, facts: RunFacts | None, registry: Registry, filters: Mapping[str, str] | None = None
) -> list[Any]:
    """The trace's name (a picker when there are several), what it is, and its report.

    ``filters``: those that the report follows, as the address has them.
    """
    entries = registry.entries()
    name = plain(entry.name, 120)
    items: list[Any] = [
        # The script compares the number with the server's: another one means another file.
        html.Span(id="trace-generation", hidden=True, **{"data-generation": str(registry.generation(entry.id))})
    ]
    if len(entries) > 1:
        items.append(_trace_picker(entry, registry))
    else:
        items.append(html.Span(name, className="trace-name", title=entry.name))
    if entry.live:
        items.append(chip("recording", "Seen through a snapshot of a recording that has not ended", "chip-warning"))
    if facts is None:
        return items
    items.append(chip(facts.device, "Device of the recorded program", "chip-long"))
    if facts.emulated:
        items.append(chip("emulated", "No device: times are what the CPU took", "chip-warning"))
    items.append(chip(q.plural(facts.events, "event"), "Events in the trace", "chip-count"))
    torch = facts.versions.get("torch")
    if torch:
        items.append(chip(f"torch {torch}", "Version of the recorded program", "chip-long chip-version"))
    if facts.losses.get("dropped"):
        items.append(chip(f"{q.count(facts.losses['dropped'])} dropped", "Events lost while recording", "chip-warning"))
    items.append(
        html.A(
            "Report", href=f"/api/v1/t/{entry.id}/report" + (f"?{urlencode(filters)}" if filters else ""),
            download="", className="button report-button",
            title="Download the findings, alerts and tables as one HTML file that works offline",
        )
    )  # fmt: skip
    return items


def _trace_picker(entry: Entry, registry: Registry) -> html.Details:
    """The other traces; arrow keys walk them, Escape closes (``assets/picker.js``)."""
    links = []
    for e in registry.entries():
        here = e.id == entry.id
        links.append(
            html.A(
                [html.Span(plain(e.name, 120), className="picker-name"),
                 html.Span(" · ".join(described(registry.describe(e))), className="picker-facts")],
                href=page_url(e.id, HOME),
                className="picker-link picker-current" if here else "picker-link",
                **({"aria-current": "true"} if here else {}),
            )
        )  # fmt: skip
    count = q.plural(len(links), "trace")
    return html.Details(
        [
            html.Summary(plain(entry.name, 120), className="trace-name", title=f"Choose another of {count}"),
            html.Div(links, className="picker", role="group", **{"aria-label": "Traces"}),
        ],
        className="trace-picker",
    )


def described(d: Description) -> list[str]:
    """When, on what, how long, how many events, how large; without what is not known."""
    facts = [
        d.start.replace("T", " ").replace("Z", " UTC"),
        plain(d.device, 60),
        q.duration(d.duration_ns) if d.duration_ns >= 0 else "",
        q.plural(d.events, "event") if d.events >= 0 else "",
        size(d.bytes) if d.bytes >= 0 else "",
    ]
    return [fact for fact in facts if fact] or ["cannot be read"]


def size(count: int) -> str:
    """Bytes as people read them: ``1.2 MB``."""
    value, unit = float(count), "B"
    for bigger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, bigger
    return f"{q.significant(value) if unit != 'B' else int(value)} {unit}"


def chip(text: str, title: str = "", extra: str = "") -> html.Span:
    """A small fact in the top bar or beside a heading."""
    return html.Span(plain(text, 80), className=f"chip {extra}".strip(), title=title)


def navigation(pages: Sequence[Page], trace_id: str, current: str, keep: Mapping[str, str]) -> list[Any]:
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


def picker(registry: Registry) -> html.Section:
    """The list of traces, when several are served."""
    heads = (("trace", ""), ("recorded", ""), ("device", ""), ("duration", "num"), ("events", "num"), ("size", "num"))
    rows = []
    for e in registry.entries():
        d = registry.describe(e)
        known = d.events >= 0
        rows.append(
            html.Tr(
                [
                    html.Td(html.A(plain(e.name, 120), href=page_url(e.id, HOME), className="mono", title=e.name)),
                    html.Td(d.start.replace("T", " ").replace("Z", "") or "–", className="nowrap"),
                    html.Td(plain(d.device, 60) if known else "cannot be read"),
                    html.Td(q.duration(d.duration_ns) if known else "–", className="num"),
                    html.Td(q.count(d.events) if known else "–", className="num"),
                    html.Td(size(d.bytes) if d.bytes >= 0 else "–", className="num"),
                ]
            )
        )
    head = html.Thead(html.Tr([html.Th(text, className=kind, scope="col") for text, kind in heads]))
    table = html.Table([head, html.Tbody(rows)], className="table picker-list")
    return html.Section(
        [
            html.H1("Traces", className="card-title"),
            html.Div(table, className="table-scroll"),
            *(html.P(plain(text, 1000), className="note") for text in registry.notes),
        ],
        className="card",
    )
