"""Two steps above each other on one axis, and what says which two. ``assets/timeline-pair.js`` draws them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dash import dcc, html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.comparing.aligned import Aligned
from neuron_explorer.ui.components.card import card, note, segmented
from neuron_explorer.ui.components.exports import exportable_chart
from neuron_explorer.ui.components.links import timeline_url

ROOT: Final = "compare-timeline"


def compare_timeline(
    aligned: Aligned, ids: tuple[str, str], wish: str, url: Callable[[str], str]
) -> html.Section:
    """The card. ``ids``: of the traces by side; ``wish``: the alignment in the address; ``url(wish)``: the page's."""
    drawn = html.Div(id=ROOT, className="pair export-drawn", **{"data-url": spans_url(ids, wish)})
    shown = dcc.Store(id="compare-timeline-mounted")
    notes = [note(f"{aligned.note[:1].upper()}{aligned.note[1:]}: the median steps are shown.")] if aligned.note else []
    return card(
        ["One step of both ", html.Span("from its beginning, on one axis", className="card-unit")],
        html.Div([*_chooser(aligned, url), *_links(aligned, ids)], className="pair-choice"), *notes,
        exportable_chart(drawn, "step-of-both"), shown, aside=_by(aligned, url),
    )  # fmt: skip


def spans_url(ids: tuple[str, str], wish: str) -> str:
    """Where the script asks for the spans."""
    return f"/api/v1/compare/{ids[0]}/{ids[1]}/spans" + (f"?at={wish}" if wish else "")


def _by(aligned: Aligned, url: Callable[[str], str]) -> Any:
    number = aligned.after.number if aligned.after.number is not None else 0
    return segmented("Which step", [
        ("Median steps", url(""), aligned.by == "median"),
        ("Same number", url(f"n{number}"), aligned.by == "number"),
        ("Same place among the steady", url("k1"), aligned.by == "place"),
    ])  # fmt: skip


def _chooser(aligned: Aligned, url: Callable[[str], str]) -> list[Any]:
    """The step before and after the chosen one, by number or place."""
    said = " → ".join(
        "the run" if w.number is None else f"step {w.number:,} ({q.duration(w.duration)})"
        for w in (aligned.before, aligned.after)
    )
    if not aligned.values:
        return [html.Span(said)]
    at = aligned.values.index(aligned.value)
    key = "n" if aligned.by == "number" else "k"
    around = [aligned.values[to] if 0 <= to < len(aligned.values) else None for to in (at - 1, at + 1)]
    word = "step" if key == "n" else "steady step"
    arrows = [
        html.A(text, href=url(f"{key}{value}"), className="segment", title=f"{title} {word}: {value:,}")
        if value is not None else html.Span(text, className="segment muted", **{"aria-hidden": "true"})
        for text, title, value in (("‹", "Previous", around[0]), ("›", "Next", around[1]))
    ]  # fmt: skip
    which = f"Steady step {aligned.value:,} of {len(aligned.values):,}: " if key == "k" else ""
    return [html.Span(arrows, className="segmented"), html.Span(which + said)]


def _links(aligned: Aligned, ids: tuple[str, str]) -> list[Any]:
    sides = (("before", aligned.before, ids[0]), ("after", aligned.after, ids[1]))
    return [
        html.A(f"timeline {side}", href=timeline_url(trace_id, step=str(window.number)))
        for side, window, trace_id in sides if window.number is not None
    ]  # fmt: skip
