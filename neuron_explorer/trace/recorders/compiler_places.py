"""Whose lines led to a compilation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

from neuron_explorer.trace.compiles import Place
from neuron_explorer.trace.paths import PathRules

__all__ = ["Places", "place_of_code"]

MAX_CALLERS = 48
_MAX_FRAMES = 2000


class Places:
    """Finds the user's frames, by the rules that the trace itself is made with."""

    def __init__(self, session: Mapping[str, Any]) -> None:
        self._rules = PathRules(session)

    def is_user(self, file: str) -> bool:
        """Whether code of this file is the user's."""
        return self._rules.info(file).user

    def callers(self, frame: FrameType | None) -> tuple[Place, ...]:
        """The user's frames from ``frame`` outwards, innermost first. Keeps no frame."""
        found: list[Place] = []
        for _ in range(_MAX_FRAMES):
            if frame is None or len(found) == MAX_CALLERS:
                break
            code = frame.f_code
            if self.is_user(code.co_filename):
                found.append(Place(code.co_filename, frame.f_lineno or -1, function_name(code)))
            frame = frame.f_back
        return tuple(found)

    def of_summary(self, stack: Iterable[Any] | None) -> tuple[Place, ...]:
        """The frames of a ``traceback.StackSummary`` (outermost first), innermost first; the user's,
        or all where none is."""
        every = [
            Place(str(entry.filename), int(entry.lineno or -1), str(entry.name))
            for entry in reversed(list(stack or ()))
        ]
        users = [place for place in every if self.is_user(place.file)]
        return tuple((users or every)[:MAX_CALLERS])


def function_name(code: CodeType) -> str:
    """The qualified name, where this Python has it."""
    return getattr(code, "co_qualname", code.co_name)


def place_of_code(code: CodeType) -> Place:
    """The function that a code object is."""
    return Place(code.co_filename, code.co_firstlineno, function_name(code))
