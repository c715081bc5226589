"""A source line in its surroundings, from the text that the trace carries.

Reusable on any page: ``source_context(trace, file, line)``. Text is only ever set as
text; no file is read, whatever a trace names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dash import html

from neuron_explorer.analysis.bottlenecks import split_lines
from neuron_explorer.analysis.plain import plain
from neuron_explorer.ui.cache import cached

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

AROUND: Final = 6
_LONGEST: Final = 400


def source_lines(trace: Trace, file: str, line: int, around: int = AROUND) -> list[tuple[int, str]] | None:
    """Numbered lines around a line (1-based), or None where the trace has no text of it."""
    lines = cached(trace, _file_lines, file)
    if lines is None or not 1 <= line <= len(lines):
        return None
    first, last = max(1, line - around), min(len(lines), line + around)
    return [(n, _clean(lines[n - 1])) for n in range(first, last + 1)]


def _file_lines(trace: Trace, file: str) -> list[str] | None:
    text = trace.source(file)
    return None if text is None else split_lines(text)


def _clean(text: str) -> str:
    return plain(text.replace("\f", "").replace("\t", "    "), _LONGEST)


def source_context(trace: Trace, file: str, line: int, around: int = AROUND) -> html.Div:
    """The lines with the wanted one marked, or why there are none."""
    lines = source_lines(trace, file, line, around)
    if lines is None:
        return html.Div(html.P(_missing(trace), className="empty"), className="source")
    return html.Div(
        [
            html.Div(
                [html.Span(str(number), className="source-number"), html.Span(text, className="source-text")],
                className="source-line source-line-current" if number == line else "source-line",
                **({"aria-current": "true"} if number == line else {}),
            )
            for number, text in lines
        ],
        className="source",
        tabIndex=0,
        role="region",
        **{"aria-label": f"Source around line {line}"},
    )


def _missing(trace: Trace) -> str:
    discloses: Any = trace.metadata.get("discloses")
    kept = discloses.get("source") if isinstance(discloses, dict) else None
    if kept == "none":
        return 'Recorded without source text. profile(source="all") keeps it.'
    if kept == "lines":
        return 'Recorded with single lines only. profile(source="all") keeps whole files.'
    return "The trace carries no text of this line: the file was not readable when it was recorded, or changed since."
