"""Python text read character by character, with what stands in quotes passed over."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["outermost", "outside_quotes"]


def outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """(index, depth in brackets) of each character outside quotes; a closing bracket has the depth inside it."""
    depth, quote, index = 0, "", start
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        else:
            yield index, depth
            depth += (char in "([{") - (char in ")]}")
        index += 1


def outermost(text: str, wanted: str, start: int = 0) -> int:
    """Where the first ``wanted`` outside quotes and brackets begins, -1 where there is none."""
    return next((i for i, depth in outside_quotes(text, start) if depth == 0 and text.startswith(wanted, i)), -1)
