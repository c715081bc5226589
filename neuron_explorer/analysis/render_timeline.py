"""The timeline of an offline report as HTML: its data, and the script that draws it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.html_text import Markup, element, join
from neuron_explorer.analysis.report_charts import swatch
from neuron_explorer.analysis.report_timeline import TimelinePart

__all__ = ["render_timeline", "script"]

_BUTTONS: Final = (("in", "+", "Zoom in"), ("out", "−", "Zoom out"), ("left", "←", "Earlier"), ("right", "→", "Later"),
                   ("all", "All", "Show the whole part"))  # fmt: skip


def render_timeline(part: TimelinePart) -> Markup:
    """The section's body."""
    if not part.slices and not part.merged:
        return element("p", f"Nothing was recorded in this time: {part.title}.")
    used = {s[5] for s in part.slices}
    names = [part.texts[i] for i in sorted(used)]
    legend = join(element("span", swatch(name), name.replace("_", " "), class_="key") for name in names)
    buttons = join(
        Markup(f'<button type="button" data-timeline="{key}" aria-label="{label}" title="{label}">{sign}</button>')
        for key, sign, label in _BUTTONS
    )
    label = (f"Timeline of {part.title}: {q.plural(len(part.lanes), 'lane')}. Arrow keys move, plus and minus zoom, "
             "0 shows all, brackets choose a slice, Enter fits it.")  # fmt: skip
    notes = [
        f"{part.title[:1].upper()}{part.title[1:]}: {q.duration(part.duration)}, {q.plural(part.events, 'event')}.",
        f"The {q.count(len(part.slices))} longest are shown by themselves, shorter ones put together."
        if part.merged else "",
        f"{q.plural(part.lanes_left_out, 'lane')} of fewest events left out." if part.lanes_left_out else "",
        "Drag to move; Ctrl and wheel, or + and −, to zoom; [ and ] choose a slice, Enter fits it, 0 shows all.",
    ]  # fmt: skip
    canvas = element("canvas", tabindex="0", role="img", aria_label=label)
    return join((
        element("p", " ".join(n for n in notes if n), class_="note"),
        element("div", buttons, legend, class_="timeline-bar"),
        element("p", id="timeline-said", class_="timeline-said", aria_live="polite"),
        element("div", canvas, id="timeline-box", class_="timeline-box"),
        element("p", id="timeline-small", class_="note"),
        Markup("<noscript><p>The timeline needs JavaScript; the rest of the report does not.</p></noscript>"),
        _data(part),
    ))  # fmt: skip


@cache
def script() -> str:
    """The script; the document names it by its hash."""
    return (files(__package__) / "report_timeline.js").read_text(encoding="utf-8")


def _data(part: TimelinePart) -> Markup:
    document = {"start": part.start, "duration": part.duration, "lanes": part.lanes, "texts": part.texts,
                "slices": part.slices, "merged": part.merged, "shorter_than": part.shorter_than}  # fmt: skip
    said = json.dumps(document, separators=(",", ":"))
    # Nothing in it can end the element or begin a comment.
    said = said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="timeline-data">{said}</script>')
