"""Text from a trace made safe to print: no terminal escapes, no invisible characters."""

from __future__ import annotations

import unicodedata


def plain(text: str, limit: int = 200) -> str:
    """One line of visible text, at most ``limit`` characters.

    Control, format (bidirectional overrides among them), surrogate and unassigned
    characters are written as escapes, so that a name cannot move the cursor, recolour the
    terminal or pretend to be another name.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(_visible(char) for char in cut)


def _visible(char: str) -> str:
    if char == "\t":
        return "    "
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return char


def short_file(path: str) -> str:
    """The last part of a path of either system."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]
