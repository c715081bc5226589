"""Where in a program something happens, named so that edits elsewhere do not change the name.

A place is the file (relative to the project, or the module's path below ``site-packages``), the
qualified name of the function, the text of the line without its comment and layout, and how many
equal lines come before it in the function. Line numbers are for display only: one added import
moves every one of them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.function_spans import MODULE, functions

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_TEXT: Final = 400
_PACKAGES: Final = re.compile(r".*(?:^|/)(?:site|dist)-packages/")
_INSTALLED: Final = re.compile(r".*/lib/python3\.\d+t?/")


@dataclass(frozen=True, order=True)
class Place:
    """``text`` is "" and ``occurrence`` 0 where the trace carries no source of the file: all lines of a function are
    one place then.
    """

    path: str
    function: str
    text: str
    occurrence: int

    @property
    def key(self) -> tuple[str, ...]:
        """The place as fields of a key."""
        return self.path, self.function, self.text, str(self.occurrence)


NOWHERE: Final = Place("", "", "", 0)
"""Events without a line."""


def normalised(line: str) -> str:
    """A line without its comment, its indentation and runs of blanks."""
    return " ".join(_without_comment(line).split())[:MOST_TEXT]


def _without_comment(line: str) -> str:
    quote = ""
    at = 0
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif line.startswith(quote, at):
                at += len(quote) - 1
                quote = ""
        elif char in "\"'":
            quote = char * 3 if line.startswith(char * 3, at) else char
            at += len(quote) - 1
        elif char == "#":
            return line[:at]
        at += 1
    return line


def portable(path: str) -> str:
    """A path that does not depend on where the project or its packages lie."""
    slashed = path.replace("\\", "/")
    for pattern in (_PACKAGES, _INSTALLED):
        found = pattern.match(slashed)
        if found:
            return slashed[found.end() :]
    return slashed


def spans(text: str) -> list[tuple[int, int]]:
    """First and last line of every function, decorators included; nothing where the text is no Python that is known."""
    return sorted((f.first, f.last) for f in functions(text))


class FilePlaces:
    """The places of one file, from its text."""

    def __init__(self, path: str, text: str) -> None:
        self._path = portable(path)
        self._lines = [normalised(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        found = sorted((f.first, f.last, f.name) for f in functions(text))
        self._spans = [(first, last) for first, last, _ in found]
        self._names = [name for *_, name in found]
        self._starts = [first for first, _ in self._spans]

    def of(self, line: int, function: str) -> Place:
        """The place of a line (1-based). A line that the text does not have is a place without text."""
        if not 1 <= line <= len(self._lines):
            return Place(self._path, function, "", 0)
        function = self._qualified(line, function)
        text = self._lines[line - 1]
        first = self._function_start(line)
        before = self._lines[first - 1 : line - 1]
        return Place(self._path, function, text, before.count(text))

    def _qualified(self, line: int, function: str) -> str:
        """Python 3.10 knows a function by its own name only; the source says of which class or function it is."""
        if not function or "." in function or function == MODULE:
            return function
        for at in range(bisect_right(self._starts, line) - 1, -1, -1):
            name = self._names[at]
            if self._spans[at][1] < line:
                continue
            if function.startswith("<"):  # of a lambda or a comprehension: the innermost function around it
                return f"{name}.<locals>.{function}"
            if name.rpartition(".")[2] == function:
                return name
        return function

    def _function_start(self, line: int) -> int:
        """First line of the innermost function around a line; 1 outside any."""
        for at in range(bisect_right(self._starts, line) - 1, -1, -1):
            first, last = self._spans[at]
            if first <= line <= last:
                return first
        return 1


class Places:
    """The places of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._files: dict[str, FilePlaces | None] = {}
        self._lines: dict[Place, tuple[str, int]] = {}

    def of(self, file: str | None, line: int, function: str | None) -> Place:
        """The place of a row; ``NOWHERE`` for one without a file."""
        if not file:
            return NOWHERE
        if file not in self._files:
            text = self._trace.source(file)
            self._files[file] = FilePlaces(file, text) if text else None
        known = self._files[file]
        name = function or ""
        place = known.of(line, name) if known is not None else Place(portable(file), name, "", 0)
        self._lines.setdefault(place, (file, line))
        return place

    def line(self, place: Place) -> tuple[str, int]:
        """File and line to show for a place; ("", -1) for one that this trace does not have."""
        return self._lines.get(place, ("", -1))

    def without_source(self, files: Iterable[str]) -> list[str]:
        """Those of the files whose source the trace does not carry."""
        return sorted(f for f in set(files) if self._files.get(f) is None)
