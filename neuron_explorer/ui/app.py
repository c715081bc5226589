"""The Dash app: routing, the guard, and the pages put together."""

from __future__ import annotations

import logging
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash
from dash import Input, Output, State, no_update

from neuron_explorer.analysis.facts import run_facts
from neuron_explorer.analysis.filters import KEYS
from neuron_explorer.analysis.plain import plain
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui import shell, state_endpoints
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.filter_bar import filter_bar
from neuron_explorer.ui.filters import read_filters
from neuron_explorer.ui.page import (
    Page,
    keeping,
    load_pages,
    offering,
    page_path_of,
    page_url,
    parse_search,
    trace_id_of,
)
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.security import Guard, protect
from neuron_explorer.ui.served_run import is_one_run
from neuron_explorer.ui.timeline import endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

_INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        <link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
        <script src="/assets/theme.js"></script>
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>
            {%config%}
            {%scripts%}
            {%renderer%}
        </footer>
    </body>
</html>"""


def create_app(
    traces: Sequence[Path | str],
    *,
    token: str,
    port: int,
    hosts: Sequence[str] = (),
    registry: Registry | None = None,
) -> dash.Dash:
    """The app for these traces.

    ``token`` opens it (``/?token=...``); ``port`` and ``hosts`` are what the Host header
    may say beside loopback. Traces are opened when they are first looked at. Everything
    is served from here; debug mode, the developer tools and Dash's MCP server stay off.
    """
    registry = registry or Registry(traces)
    app = dash.Dash(
        __name__,
        assets_folder="assets",
        assets_ignore=r"^theme\.js$",
        title="Neuron Explorer",
        update_title=None,  # type: ignore[arg-type]
        serve_locally=True,
        suppress_callback_exceptions=True,
        enable_mcp=False,
        add_log_handler=False,
        include_pages_meta=False,
        index_string=_INDEX,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    pages = load_pages()
    app.layout = shell.frame()
    _routes(app, registry)
    _content(app, registry, pages)
    for page in pages:
        if page.register is not None:
            page.register(app, registry)
    endpoints.register(app.server, registry)
    state_endpoints.register(app.server, registry)
    _failures(app)
    protect(app, Guard(token, port, tuple(hosts)))
    return app


def _failures(app: dash.Dash) -> None:
    """A request that fails gets one sentence, and the terminal one line: the rest is for ``logging``'s debug level."""
    import flask
    from werkzeug.exceptions import HTTPException

    def failed(error: Exception) -> flask.typing.ResponseReturnValue:
        if isinstance(error, HTTPException):
            return error
        known = isinstance(error, NeuronExplorerError)
        if not known:
            where = traceback.extract_tb(error.__traceback__)[-1:]
            place = f" ({Path(where[0].filename).name}:{where[0].lineno})" if where else ""
            text = plain(f"{type(error).__name__}: {error}", 300)
            log.error("%s %s: %s%s", flask.request.method, plain(flask.request.path, 100), text, place)
            log.debug("a request failed", exc_info=error)
        said = str(error) if known else "This request could not be answered; the server's output says more."
        return flask.Response(said + "\n", 409 if known else 500, mimetype="text/plain")

    app.server.register_error_handler(Exception, failed)


def _routes(app: dash.Dash, registry: Registry) -> None:
    import flask

    def send_home() -> flask.typing.ResponseReturnValue | None:
        path = flask.request.path
        if path == "/":
            registry.look_for_more()
        entries = registry.entries()
        if path == "/" and len(entries) == 1:
            return flask.redirect(page_url(entries[0].id, shell.HOME))
        if path == "/" and is_one_run(registry):
            return flask.redirect(page_url(entries[0].id, shell.HOME_OF_A_RUN))
        trace_id = trace_id_of(path)
        if trace_id and path.rstrip("/") == f"/t/{trace_id}" and registry.entry(trace_id):
            return flask.redirect(page_url(trace_id, shell.HOME))
        return None

    app.server.before_request(send_home)


def _content(app: dash.Dash, registry: Registry, pages: Sequence[Page]) -> None:
    by_path = {page.path: page for page in pages}

    @app.callback(
        Output("topbar-trace", "children"),
        Output("nav", "children"),
        Output("content", "children"),
        Output("content", "className"),
        Output("filters", "children"),
        Output("page-key", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        State("page-key", "data"),
    )
    def show(pathname: str | None, search: str | None, shown: Any) -> tuple[Any, ...]:
        state = parse_search(search)
        trace_id, path = trace_id_of(pathname), page_path_of(pathname)
        page = by_path.get(path)
        follows = () if page is None else page.follows if page.own_filters else (*page.follows, *KEYS)
        key = {
            "page": [trace_id, path, *(state.get(k, "") for k in follows)],
            "filters": [state.get(k, "") for k in KEYS],
        }
        if key == shown:
            return (no_update,) * 6
        registry.renew(trace_id)
        drawn = draw(registry, pages, page, trace_id, path, state)
        if isinstance(shown, dict) and key["page"] == shown.get("page"):
            drawn = (*drawn[:2], no_update, no_update, drawn[4])  # the page's script follows the filters
        return (*drawn, key)


def draw(
    registry: Registry,
    pages: Sequence[Page],
    page: Page | None,
    trace_id: str,
    path: str,
    state: dict[str, str],
) -> tuple[Any, Any, Any, Any, Any]:
    """Top bar, navigation, content and its class, and the bar of filters for one address."""
    registry.look_for_more()
    entry = registry.entry(trace_id)
    if entry is None:
        if not trace_id and path == "":
            return [], [], shell.picker(registry), "content", []
        gone = shell.message(
            "No such trace", "This address belongs to a trace that this server does not show.", "It shows these:"
        )
        return [], [], [gone, shell.picker(registry)], "content", []
    nav = shell.navigation(pages, trace_id, path, {k: state[k] for k in KEYS if k in state})
    filters: list[Any] = []
    try:
        trace = registry.get(trace_id)
        assert trace is not None
        facts = cached(trace, run_facts)
        reading = read_filters(trace, state)
        keep = reading.chosen.in_address()
        bar = shell.topbar(entry, facts, registry, keep)
        nav = shell.navigation(pages, trace_id, path, keep)
        if page is None:
            text = "The navigation lists the pages of this trace."
            return bar, nav, shell.message("No such page", text), "content", []
        filters = filter_bar(page, trace_id, reading, state)
        with keeping(keep), offering(registry):
            content = page.layout(trace_id, trace, state)
    except NeuronExplorerError as error:
        text = shell.message("This trace cannot be read", str(error))
        return shell.topbar(entry, None, registry), nav, text, "content", []
    except Exception as error:
        log.error("page %s: %s", path, plain(f"{type(error).__name__}: {error}", 300))
        log.debug("a page failed", exc_info=error)
        found = registry.condition(trace_id)
        why = found.text if found and found.text else "The server's output says more."
        text = shell.message("This page could not be drawn", f"{type(error).__name__}. {why}")
        return shell.topbar(entry, None, registry), nav, text, "content", filters
    return bar, nav, content, "content content-wide" if page.wide else "content", filters


def warm(registry: Registry) -> threading.Thread:
    """Open the first trace in the background, so that the first page comes sooner."""

    def work() -> None:
        for entry in registry.entries()[:1]:
            try:
                trace = registry.get(entry.id)
                if trace is not None:
                    cached(trace, run_facts)
                    read_filters(trace, {})
            except NeuronExplorerError:
                return  # the page says it

    # No daemon: torn out of DuckDB at exit, such a thread aborts the process.
    thread = threading.Thread(target=work, name="warm")
    thread.start()
    return thread
