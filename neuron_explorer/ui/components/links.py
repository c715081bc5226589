"""Where a line, an operator, a module or a step leads: URLs of this app, never of a trace's making."""

from __future__ import annotations

from dash import html

from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.ui.page import page_url


def line_url(trace_id: str, file: str, line: int, period: str = "") -> str:
    """The line's row and its source."""
    return page_url(trace_id, "/bottlenecks", {"by": "line", "file": file, "line": str(line), "period": period})


def source_url(trace_id: str, file: str, line: int = 0, period: str = "") -> str:
    """The file on the page of sources, at a line of it."""
    return page_url(trace_id, "/source", {"file": file, "line": str(line) if line > 0 else "", "period": period})


def timeline_url(trace_id: str, **find: str) -> str:
    """The timeline, searching: ``file`` and ``line``, ``op``, ``module``, ``step`` or ``event``."""
    return page_url(trace_id, "/timeline", find)


def place(file: str, line: int) -> str:
    """``model.py:52``; the whole path belongs in the title."""
    return f"{plain(short_file(file), 60)}:{line}"


def line_link(trace_id: str, file: str, line: int, period: str = "") -> html.A:
    """A link to a source line, named by its file's last part."""
    return html.A(
        place(file, line),
        href=line_url(trace_id, file, line, period),
        className="mono line-link",
        title=f"{file}:{line}",
    )


def line_or_none(trace_id: str, file: str, line: int) -> html.A | html.Span:
    """A link to a source line over the whole run, or that there is none."""
    return line_link(trace_id, file, line, "all") if file else html.Span("no line", className="muted")
