"""A plain table with its export buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from neuron_explorer.ui.components.exports import exportable_table


def plain_table(
    heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[Any]], name: str, extra: str = "", *,
    wide: bool = False,
) -> html.Div:  # fmt: skip
    """``heads``: heading and class of each column (``num`` for numbers); ``name``: of the exported file; ``wide``: it
    scrolls sideways in an ordinary window.
    """
    head = html.Tr([html.Th(text, className="num" if "num" in kind else "", scope="col") for text, kind in heads])
    body = [
        html.Tr([html.Td(cell, className=kind) for cell, (_, kind) in zip(row, heads, strict=True)]) for row in rows
    ]
    table = html.Table([html.Thead(head), html.Tbody(body)], className=f"table {extra}".strip())
    return exportable_table(table, name, wide=wide)
