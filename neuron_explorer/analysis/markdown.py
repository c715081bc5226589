"""Text and tables as GitHub-flavoured Markdown, safe for names from a trace."""

from __future__ import annotations

from typing import Final

from neuron_explorer.analysis.plain import plain


def markdown_table(head: list[str], rows: list[list[str]], right: tuple[int, ...] | None = None) -> list[str]:
    """Lines of a table; ``right`` are the columns aligned right (all but the first)."""
    aligned = range(1, len(head)) if right is None else right
    rule = ["---:" if i in aligned else "---" for i in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


_MD_SPECIAL: Final = str.maketrans({c: "\\" + c for c in r"\`*_{}[]()#+!|~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def escaped(text: str) -> str:
    """Text as text in Markdown."""
    return plain(text, 400).translate(_MD_SPECIAL)


def code(text: str) -> str:
    """Text as a code span that survives backticks and table bars."""
    if not text:
        return ""
    body = plain(text, 200).replace("|", "\\|")
    longest = run = 0
    for char in body:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{body}{pad}{fence}"
