"""Pieces of an HTML document made from a trace's texts: everything is escaped, nothing is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from neuron_explorer.analysis.plain import plain

MOST_CHARACTERS: Final = 400


class Markup(str):
    """Text that is HTML already. Everything else is escaped where it is put into a document."""

    __slots__ = ()


def text(value: object, limit: int = MOST_CHARACTERS) -> Markup:
    """Any value as text: visible characters only, escaped, at most ``limit`` of them."""
    return value if isinstance(value, Markup) else Markup(escape(plain(str(value), limit), quote=True))


def join(parts: Iterable[object]) -> Markup:
    """The parts one after the other."""
    return Markup("".join(text(part) for part in parts))


def element(name: str, *children: object, **attributes: object) -> Markup:
    """``<name attributes>children</name>``. A trailing underscore of an attribute's name is dropped."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value not in (None, "")
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def code(value: object, limit: int = MOST_CHARACTERS) -> Markup:
    """Text in the code face; nothing for an empty one."""
    shown = text(value, limit)
    return Markup(f"<code>{shown}</code>") if shown else Markup("")


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], numeric: Sequence[int] = (), caption: str = ""
) -> Markup:
    """A table that scrolls by itself where it is wider than the page."""

    def kind(index: int) -> str:
        return "num" if index in numeric else ""

    heads = join(element("th", name, scope="col", class_=kind(i)) for i, name in enumerate(head))
    body = join(
        element("tr", join(element("td", cell, class_=kind(i)) for i, cell in enumerate(row))) for row in rows
    )
    said = element("caption", caption) if caption else ""
    return element(
        "div", element("table", said, element("thead", element("tr", heads)), element("tbody", body)), class_="scroll"
    )


def definitions(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and their values."""
    return element("dl", join(join((element("dt", name), element("dd", value))) for name, value in pairs))
