"""Small endpoints of the app beside its pages: how a trace stands, looking again, the report.

Under ``/api/v1/t/<trace id>``: ``state`` (GET, JSON, a few system calls: pages ask every few
seconds), ``refresh`` (POST) and ``report`` (GET, the offline HTML as a download). And
``/api/v1/sql/<key>/cancel`` (POST): the page that asked a query is left.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neuron_explorer.errors import NeuronExplorerError

if TYPE_CHECKING:
    import flask

    from neuron_explorer.ui.registry import Registry

log = logging.getLogger(__name__)


def register(server: flask.Flask, registry: Registry) -> None:
    """Add the endpoints."""
    import flask

    def reply(body: dict[str, Any], status: int = 200) -> flask.Response:
        return flask.Response(json.dumps(body), status, mimetype="application/json")

    def unknown() -> flask.Response:
        return reply({"state": "unknown", "text": "This server does not show that trace."}, 404)

    @server.get("/api/v1/t/<trace_id>/state")
    def trace_state(trace_id: str) -> flask.Response:
        found = registry.condition(trace_id)
        if found is None:
            return unknown()
        return reply(
            {
                "state": found.state,
                "text": found.text,
                "action": found.action,
                "since_s": round(found.since_s, 1),
                "generation": registry.generation(trace_id),
            }
        )

    @server.post("/api/v1/t/<trace_id>/refresh")
    def trace_refresh(trace_id: str) -> flask.Response:
        if registry.entry(trace_id) is None:
            return unknown()
        try:
            registry.refresh(trace_id)
        except (NeuronExplorerError, OSError) as error:
            return reply({"state": "failed", "text": str(error)}, 409)
        return reply({"state": "current"})

    @server.post("/api/v1/sql/<key>/cancel")
    def sql_cancel(key: str) -> flask.Response:
        from neuron_explorer.trace.sql_process import cancel

        # Who knows the random key of a query is who asked it.
        found = cancel(key[:64])
        return reply({"cancelled": found}, 200 if found else 202)

    @server.get("/api/v1/t/<trace_id>/report")
    def trace_report(trace_id: str) -> flask.Response:
        from neuron_explorer.analysis.render_html import render
        from neuron_explorer.analysis.report import report
        from neuron_explorer.analysis.report_timeline import chosen_part
        from neuron_explorer.ui.cache import cached
        from neuron_explorer.ui.filters import filter_of

        entry = registry.entry(trace_id)
        if entry is None:
            return unknown()
        try:
            trace = registry.get(trace_id)
            assert trace is not None
            found = cached(trace, report, period=filter_of(trace, flask.request.args))
            text = render(replace(found, timeline=cached(trace, chosen_part)))
        except (NeuronExplorerError, OSError) as error:
            return flask.Response(f"There is no report: {error}\n", 409, mimetype="text/plain")
        name = f"{entry.path.stem[:100]}-report.html"
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
        response = flask.Response(text, mimetype="text/html")
        response.headers["Content-Disposition"] = (
            f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, errors='replace')}"
        )
        return response
