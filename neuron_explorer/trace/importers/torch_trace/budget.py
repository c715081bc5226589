"""How much of a log is kept in memory: whatever the log holds, an import does not grow without bound."""

from __future__ import annotations

from typing import Final

__all__ = ["Budget"]

MAX_TEXT_BYTES: Final = 128 << 20
MAX_NODES: Final = 400_000
MAX_PARTS: Final = 200_000
MAX_BREAKS: Final = 50_000
MAX_COMPILES: Final = 100_000
_OVERHEAD: Final = 80  # of a text in memory


class Budget:
    """What may still be kept, of everything that is imported together."""

    def __init__(self) -> None:
        self.text_bytes = MAX_TEXT_BYTES
        self.nodes = MAX_NODES
        self._parts = MAX_PARTS
        self._breaks = MAX_BREAKS
        self._compiles = MAX_COMPILES
        self._texts: dict[str, str] = {}

    def text(self, text: str, limit: int = 4000) -> str | None:
        """The text, cut to ``limit`` and kept once however often it comes; None when there is no room."""
        text = text[:limit]
        known = self._texts.get(text)
        if known is not None:
            return known
        if not self.room(len(text) + _OVERHEAD):
            return None
        self._texts[text] = text
        return text

    def room(self, size: int) -> bool:
        """Whether ``size`` more bytes of text may be kept; if so they are taken."""
        if size > self.text_bytes:
            return False
        self.text_bytes -= size
        return True

    def compilation(self) -> bool:
        """Whether one more compilation may be kept."""
        self._compiles -= 1
        return self._compiles >= 0

    def part(self) -> bool:
        """Whether one more part of a compilation may be kept."""
        self._parts -= 1
        return self._parts >= 0

    def graph_break(self) -> bool:
        """Whether one more graph break may be kept."""
        self._breaks -= 1
        return self._breaks >= 0
