"""What a page of the explorer is, and the list of them.

One file per page under ``ui/pages``. Each module there defines ``PAGE``, a :class:`Page`.
A new page is added by naming its module in ``PAGE_MODULES``; the left navigation, the
routing and the callbacks follow from that list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

if TYPE_CHECKING:
    import dash

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry

Search = Mapping[str, str]
"""The page's state: the query string, one value a key."""

PAGE_MODULES: Final = (
    "overview",
    "timeline",
    "bottlenecks",
    "device",
    "ranks",
    "source",
    "roofline",
    "memory",
    "compare",
    "recompiles",
    "readiness",
    "sql",
    "about",
)
"""Modules under ``ui/pages`` in the order of the navigation."""


@dataclass(frozen=True)
class Page:
    """A page.

    ``path``: last part of the URL, with its slash (``/timeline``); the whole URL is
    ``/t/<trace id><path>?<query>``.
    ``name``: label in the navigation. ``section``: heading above it, "" for none.
    ``layout(trace_id, trace, search)``: draws the page; returns a Dash component.
    ``data(trace, search)``: plain data of the page, tested without a browser.
    ``register(app, registry)``: called once at start to add the page's callbacks. A
    callback gets the trace by ``registry.get(trace_id)``, the id from the pathname
    (``trace_id_of(pathname)``).

    ``follows``: keys of the query string whose change draws the page anew. Any other key
    may change (``history.replaceState``, back and forward) without that; a page that must
    see it adds a callback on ``Input("url", "search")``.
    ``wide``: the page fills the window below the top bar and scrolls itself.
    ``filters``: the shared filters (``analysis.filters.KEYS``) that its figures follow;
    their change draws it anew, too, unless ``own_filters``: its script follows the address.
    ``unfiltered``: why it does not follow the others, as it goes on after a colon; a
    page with neither shows the filters only while some are chosen. ``whole_run``: without
    a range of steps it is about the whole run, not about steady steps.
    """

    path: str
    name: str
    section: str
    layout: Callable[[str, Trace, Search], Any]
    data: Callable[[Trace, Search], Any] | None = None
    register: Callable[[dash.Dash, Registry], None] | None = None
    follows: tuple[str, ...] = ()
    wide: bool = False
    filters: tuple[str, ...] = ()
    unfiltered: str = ""
    own_filters: bool = False
    whole_run: bool = False


def load_pages() -> tuple[Page, ...]:
    """The pages, in the order of the navigation."""
    return tuple(import_module(f"{__package__}.pages.{module}").PAGE for module in PAGE_MODULES)


_kept: ContextVar[Mapping[str, str]] = ContextVar("kept")


@contextmanager
def keeping(filters: Mapping[str, str]) -> Iterator[None]:
    """While this lasts, the URLs of pages carry these keys unless they say otherwise."""
    token = _kept.set(filters)
    try:
        yield
    finally:
        _kept.reset(token)


_offered: ContextVar[Registry | None] = ContextVar("offered", default=None)


@contextmanager
def offering(registry: Registry) -> Iterator[None]:
    """While this lasts, a page may look at the other traces of the server."""
    token = _offered.set(registry)
    try:
        yield
    finally:
        _offered.reset(token)


def offered() -> Registry | None:
    """The traces of the server whose page is drawn; None outside of that."""
    return _offered.get()


def page_url(trace_id: str, path: str, search: Search | None = None) -> str:
    """The URL of a page: ``/t/<trace id><path>?<query>``. Empty values are left out.

    What ``keeping`` holds is added, so that links keep the filters.
    """
    own = {k: v for k, v in (search or {}).items() if v not in ("", None)}
    query = urlencode(own | {k: v for k, v in _kept.get({}).items() if k not in own})
    return f"/t/{trace_id}{path}" + (f"?{query}" if query else "")


def trace_id_of(pathname: str | None) -> str:
    """The trace id in a path, or "" where there is none."""
    parts = (pathname or "").split("/")
    return parts[2] if len(parts) > 2 and parts[1] == "t" else ""


def page_path_of(pathname: str | None) -> str:
    """The page part of a path (``/timeline``), or "" where there is none."""
    parts = (pathname or "").split("/")
    return "/" + parts[3] if len(parts) > 3 and parts[1] == "t" and parts[3] else ""


def parse_search(search: str | None) -> dict[str, str]:
    """The query string as a dict; at most 64 keys, values cut at 4,096 characters."""
    from urllib.parse import parse_qsl

    try:
        pairs = parse_qsl((search or "").lstrip("?"), max_num_fields=64)
    except ValueError:
        return {}
    return {key: value[:4096] for key, value in pairs}
