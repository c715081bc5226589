"""The endpoint of the steps of several ranks under each other.

``GET /api/v1/ranks/<trace id>/spans?ranks=0,3&step=7&t0=0&t1=1000``: see ``rank_steps``; ``…/state``: how many ranks
were read. No path is taken, every number is checked, and a reply is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neuron_explorer.analysis.kinds import LINE
from neuron_explorer.analysis.ranks.clocks import overlay_refusal
from neuron_explorer.comparing.aligned import Window, windows
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.json_reply import json_reply
from neuron_explorer.ui.rank_steps import MOST_RANKS, rank_steps, step_of
from neuron_explorer.ui.served_run import look, run_of_trace, view_of
from neuron_explorer.ui.step_pair import Side

if TYPE_CHECKING:
    import flask

    from neuron_explorer.trace.store import Trace
    from neuron_explorer.ui.registry import Registry


def register(server: flask.Flask, registry: Registry) -> None:
    """Add the endpoint."""
    import flask

    @server.get("/api/v1/ranks/<trace_id>/spans")
    def rank_spans(trace_id: str) -> flask.Response:
        given = [flask.request.args.get(key, "") for key in ("t0", "t1", "step")]
        if any(text and not whole(text) for text in given):
            return json_reply({"error": "The window is no whole number."}, 400)
        try:
            served = run_of_trace(registry, trace_id)
            if served is None:
                return json_reply({"error": "This server shows no other rank of that trace's run."}, 404)
            wanted = chosen_ranks(flask.request.args.get("ranks", ""), tuple(served.ids), served.mine)
            clocks = view_of(served).clocks
            refusal = overlay_refusal(clocks, wanted)
            if refusal:
                return json_reply({"error": refusal}, 409)
            sides = []
            for rank in wanted:
                trace = registry.get(served.ids[rank])
                assert trace is not None
                window = step_of(cached(trace, windows), int(given[2] or 0))
                sides.append((Side(f"rank {rank}", trace, window, lines_of(trace, window)), rank, clocks.of[rank]))
            return json_reply(rank_steps(sides, int(given[0] or 0), int(given[1]) if given[1] else None))
        except (NeuronExplorerError, OSError) as error:
            return json_reply({"error": f"The trace cannot be read: {error}"}, 410)

    @server.get("/api/v1/ranks/<trace_id>/state")
    def rank_state(trace_id: str) -> flask.Response:
        try:
            served = run_of_trace(registry, trace_id)
        except (NeuronExplorerError, OSError) as error:
            return json_reply({"error": str(error)}, 410)
        if served is None:
            return json_reply({"error": "This server shows no other rank of that trace's run."}, 404)
        state = look(served, 0)
        return json_reply({"done": state.done, "of": state.of, "ready": state.view is not None, "error": state.error})


def whole(text: str) -> bool:
    """Whether a text is a whole number that fits."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def chosen_ranks(text: str, there: Sequence[int], mine: int) -> tuple[int, ...]:
    """The ranks of an address (``0,3``) that are there, at most ``MOST_RANKS``; without any, the first four."""
    wished = {int(part) for part in text.split(",")[:1000] if whole(part)}
    found = [rank for rank in sorted(there) if rank in wished]
    if not found:
        others = [rank for rank in sorted(there) if rank != mine]
        found = sorted([mine, *others[:3]])
    return tuple(found[:MOST_RANKS])


def lines_of(trace: Trace, window: Window) -> dict[tuple[str, int, str], int]:
    """The lines whose operators begin in a step, numbered."""
    kinds = ", ".join(f"'{kind}'" for kind in LINE)
    rows = trace.sql_arrow(
        f"SELECT DISTINCT file, line, function FROM events WHERE \"start\" >= {int(window.start)} "
        f"AND \"start\" < {int(window.end)} AND file IS NOT NULL AND kind IN ({kinds}) LIMIT 20000"
    ).to_pylist()
    return {(row["file"], row["line"], row["function"] or ""): at for at, row in enumerate(rows)}
