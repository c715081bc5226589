"""A page of a report for a terminal: headings, small tables and dim notes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from io import StringIO
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain

MIN_WIDTH: Final = 72
MAX_WIDTH: Final = 120

_STYLES: Final = {"problem": "red", "cost": "yellow", "note": "dim"}


class Page:
    """Collects what is printed; ``text()`` gives it. Every text is made safe for a terminal.

    ``width``: columns; by default those of the terminal, between 72 and 120. ``color``: by
    default only when standard output is a terminal and NO_COLOR is not set.
    """

    def __init__(self, width: int | None = None, color: bool | None = None) -> None:
        from rich.console import Console

        if color is None:
            color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        if width is None:
            width = shutil.get_terminal_size((100, 24)).columns
        self._out = StringIO()
        self._console = Console(
            file=self._out, width=max(MIN_WIDTH, min(width, MAX_WIDTH)), force_terminal=color, no_color=not color,
            color_system="truecolor" if color else None, highlight=False, markup=False, emoji=False,
            soft_wrap=False, legacy_windows=False,
        )  # fmt: skip

    def text(self) -> str:
        """What was written, without trailing blanks."""
        return "\n".join(line.rstrip() for line in self._out.getvalue().splitlines()).rstrip() + "\n"

    def _print(self, *parts: tuple[str, str]) -> None:
        from rich.text import Text

        line = Text()
        for text, style in parts:
            line.append(plain(text, 600), style=style)
        self._console.print(line)

    def head(self, name: str, facts: str) -> None:
        """The first line."""
        self._print((name, "bold"), ("  " + facts, ""))

    def title(self, title: str, figure: str = "", note: str = "") -> None:
        """A section, a figure of it and a sentence about it."""
        self._console.print()
        self._print((title, "bold"), ("  " + figure if figure else "", "bold cyan"))
        if note:
            self.dim("  " + note)

    def subtitle(self, title: str) -> None:
        """A part of a section."""
        self._print(("  " + title, "underline"))

    def dim(self, text: str) -> None:
        """A note."""
        self._print((text, "dim"))

    def rest(self, hidden: int, what: str) -> None:
        """How many rows a table left out."""
        if hidden > 0:
            self.dim(f"  {q.plural(hidden, 'more ' + what)}")

    def entry(self, level: str, title: str, evidence: str, where: str) -> None:
        """A finding: a bold title, its evidence and its line."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(expand=True, padding=(0, 0, 0, 1))
        grid.add_column(width=2, justify="right")
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(Text("•", style=_STYLES.get(level, "")), Text(plain(title), style="bold"),
                     Text(plain(where), style="cyan"))  # fmt: skip
        grid.add_row("", Text(plain(evidence, 600), style="dim"), "")
        self._console.print(grid)

    def table(self, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> None:
        """``columns``: heading and kind: ``name``, ``place``, ``number`` or ``text``."""
        from rich.table import Table
        from rich.text import Text

        places = max(18, self._console.width // 4)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True, header_style="dim", show_edge=False)
        for heading, kind in columns:
            options: dict[str, Any] = {
                "name": {"ratio": 1, "no_wrap": True, "overflow": "ellipsis", "min_width": 16},
                "place": {"no_wrap": True, "overflow": "ellipsis", "max_width": places},
                "number": {"justify": "right", "no_wrap": True},
                "text": {"ratio": 1, "overflow": "fold"},
            }[kind]
            table.add_column(heading, **options)
        styles = {"place": "cyan", "text": "dim"}
        for row in rows:
            cells = [(plain(cell), kind) for cell, (_, kind) in zip(row, columns, strict=True)]
            table.add_row(*(Text(_ending(cell, places) if kind == "place" else cell, style=styles.get(kind, ""))
                            for cell, kind in cells))  # fmt: skip
        self._console.print(table)


def _ending(place: str, width: int) -> str:
    """The end of a place that is too long: it holds the name of the file and the line."""
    return place if len(place) <= width else "…" + place[1 - width :]
