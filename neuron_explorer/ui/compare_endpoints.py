"""The endpoint of the two steps that the page Compare lays above each other.

``GET /api/v1/compare/<trace id>/<trace id>/spans?at=n7&t0=0&t1=1000``: see ``step_pair``. No path is taken, every
number is checked, and a reply is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_explorer.comparing.aligned import Aligned, align, windows
from neuron_explorer.comparing.lines import pair_lines
from neuron_explorer.comparing.run import run_of
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.json_reply import json_reply
from neuron_explorer.ui.step_pair import step_pair

if TYPE_CHECKING:
    import flask

    from neuron_explorer.ui.registry import Registry


def register(server: flask.Flask, registry: Registry) -> None:
    """Add the endpoint."""
    import flask

    @server.get("/api/v1/compare/<before>/<after>/spans")
    def compare_spans(before: str, after: str) -> flask.Response:
        entries = registry.entry(before), registry.entry(after)
        if entries[0] is None or entries[1] is None:
            return json_reply({"error": "This server does not show that trace."}, 404)
        given = [flask.request.args.get(key, "") for key in ("t0", "t1")]
        if any(text and not (text.isdecimal() and len(text) < 19) for text in given):
            return json_reply({"error": "The window is no whole number."}, 400)
        try:
            traces = registry.get(before), registry.get(after)
            assert traces[0] is not None and traces[1] is not None
            pairs = pair_lines(cached(traces[0], run_of), cached(traces[1], run_of))
            aligned = aligned_steps(registry, before, after, wish_of(flask.request.args.get("at", "")))
            window = int(given[0] or 0), int(given[1]) if given[1] else None
            names = entries[0].name, entries[1].name
            return json_reply(step_pair(names, (traces[0], traces[1]), aligned, pairs, *window))
        except (NeuronExplorerError, OSError) as error:
            return json_reply({"error": f"The trace cannot be read: {error}"}, 410)


def aligned_steps(registry: Registry, before: str, after: str, wish: str) -> Aligned:
    """The steps of two traces that lie above each other. Raises ``BadTraceError``."""
    one, two = registry.get(before), registry.get(after)
    assert one is not None and two is not None
    return align(cached(one, windows), cached(two, windows), wish)


def wish_of(text: str) -> str:
    """``n7`` or ``k3`` of an address; "" for anything else."""
    return text if text[:1] in ("n", "k") and text[1:].isascii() and text[1:].isdecimal() and len(text) < 11 else ""
