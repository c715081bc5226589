"""The files of a trace with what they cost, as links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.bottlenecks import FileRow
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.page import page_url

MOST: Final = 200


def source_list(
    files: Sequence[FileRow],
    with_text: frozenset[str],
    current: str,
    trace_id: str,
    metric: str,
    steps: int,
) -> html.Section:
    """A link a file, costliest first."""
    shown = list(files[:MOST])
    shown += [row for row in files[MOST:] if row.file == current]
    hidden = len(files) - min(len(files), MOST)
    state = {"metric": "" if metric == "self" else metric}
    items = html.Ul(
        [_item(row, row.file in with_text, row.file == current, trace_id, state, steps) for row in shown],
        className="source-files",
    )
    more: list[Any] = [note(f"{q.plural(hidden, 'cheaper file')} not listed.")] if hidden else []
    return card(["Files ", html.Span(f"self time{' a step' if steps else ''}", className="card-unit")], items, *more,
                extra="source-list")  # fmt: skip


def _item(
    row: FileRow, has_text: bool, current: bool, trace_id: str, state: dict[str, str], steps: int
) -> html.Li:
    folder, name = _split(row.file)
    title = f"{plain(row.file, 400)}: {q.share(row.share)}, {q.plural(row.lines, 'line')}"
    return html.Li(
        html.A(
            [
                html.Span(className="file-bar", style={"width": f"{min(100.0, max(0.0, row.share * 100)):.2f}%"}),
                html.Span([html.Span(plain(folder, 60), className="file-folder"), plain(name, 60)],
                          className="file-name mono"),
                html.Span(q.duration(row.self_ns / max(steps, 1)) if row.self_ns else "–", className="file-time num"),
                *([] if has_text else [html.Span("no text", className="file-note")]),
            ],
            href=page_url(trace_id, "/source", {"file": row.file, **state}),
            className="file-link file-link-current" if current else "file-link",
            title=title,
            **({"aria-current": "true"} if current else {}),
        )
    )  # fmt: skip


def _split(file: str) -> tuple[str, str]:
    name = short_file(file)
    folder = file[: len(file) - len(name)]
    return (f"…{folder[-28:]}" if len(folder) > 29 else folder), name
