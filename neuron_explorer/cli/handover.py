"""How a command asks for a program to be run after the command line is done."""

from __future__ import annotations

from collections.abc import Callable


class Handover(BaseException):
    """Carries ``program`` out of the argument parser, so that none of the parser's frames
    lie under the user's program. ``program`` returns the exit code."""

    def __init__(self, program: Callable[[], int]) -> None:
        super().__init__()
        self.program = program
