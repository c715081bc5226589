"""Python stacks as texts, as torch.profiler's ``Call stack`` has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..store import Frame, Trace

__all__ = ["CallStacks"]

_CACHED: Final = 20_000
_DEEPEST: Final = 2_000


class CallStacks:
    """Members of ``args`` by the id of the innermost frame."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[int, str] = {}

    def member(self, frame: int) -> str:
        """``,"Call stack":"file(line): function;…"``, innermost first; empty for a frame that is not there."""
        known = self._known.get(frame)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            text = self.text(frame)
            known = self._known[frame] = f',"Call stack":{json.dumps(text)}' if text else ""
        return known

    def text(self, frame: int) -> str:
        """``file(line): function;…``, innermost first; empty for a frame that is not there."""
        return ";".join(map(_said, self._trace.stack(frame)[:_DEEPEST]))


def _said(frame: Frame) -> str:
    # The semicolon separates frames.
    return f"{frame.file}({max(frame.line, 0)}): {frame.function}".replace(";", ",")
