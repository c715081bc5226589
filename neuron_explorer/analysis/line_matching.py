"""Which line of one text is which line of another, through edits.

Within functions of one name the lines are compared in order: equal lines are the same line, wherever
they went; of lines that replace one another, two are one edited line where they resemble each other
(0.6 of ``difflib``'s ratio), nothing else resembles either as much, and neither was split in several. A
function that is gone and one that is new are one renamed function where their bodies resemble each other
(0.8). A line that left one function and came to another unchanged has moved, where it is the only one of
its text. Ties are left unmatched: a wrong match is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from neuron_explorer.analysis.function_spans import FunctionSpan, function_spans
from neuron_explorer.analysis.place import normalised

EDITED: Final = 0.6
RENAMED: Final = 0.8
MOST_REPLACED: Final = 200
"""Lines of one replaced block on a side that are compared pair by pair; longer blocks stay unmatched."""
MOST_FUNCTIONS: Final = 200
SHORTEST_MOVED: Final = 8
"""Characters from which a line says enough to be found again elsewhere."""

_KEYWORD: Final = re.compile(r"(?:return|yield|raise|assert|if|elif|while|for|with|del|await|import|from) ")
_BLOCK: Final = re.compile(r"(?:async )?(?:if|elif|for|while|with|def|class|except|match|case)\b.*:$")
_WORD: Final = re.compile(r"\w+")

KINDS: Final = ("same", "edited", "renamed", "moved")


@dataclass(frozen=True)
class Matched:
    """A line of the later text, and how it was found: one of ``KINDS``."""

    line: int
    kind: str


def match_lines(before: str, after: str) -> dict[int, Matched]:
    """The lines of ``after`` by those of ``before`` (1-based), without those that have no partner or are empty."""
    old, new = _Text(before), _Text(after)
    found: dict[int, Matched] = {}
    pairs, gone, come = _by_name(old.functions, new.functions)
    for one, two in pairs:
        _match(old, one, new, two, "same", found)
    for one, two in _renamed(old, gone, new, come):
        _match(old, one, new, two, "renamed", found)
    taken = {m.line for m in found.values()}
    _moved(old, [n for n in old.filled if n not in found], new, [n for n in new.filled if n not in taken], found)
    return found


class _Text:
    def __init__(self, text: str) -> None:
        unix = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = ["", *(normalised(line) for line in unix.split("\n"))]
        self.functions = function_spans(unix)
        self.filled = [n for n, line in enumerate(self.lines) if line]

    def of(self, function: FunctionSpan) -> list[int]:
        """The function's lines that hold something."""
        return [n for n in function.lines if self.lines[n]]


def _by_name(
    old: Sequence[FunctionSpan], new: Sequence[FunctionSpan]
) -> tuple[list[tuple[FunctionSpan, FunctionSpan]], list[FunctionSpan], list[FunctionSpan]]:
    """Functions of one name, the first with the first; those without a partner on either side."""
    waiting: dict[str, list[FunctionSpan]] = {}
    for function in new:
        waiting.setdefault(function.name, []).append(function)
    pairs, gone = [], []
    for function in old:
        others = waiting.get(function.name)
        if others:
            pairs.append((function, others.pop(0)))
        else:
            gone.append(function)
    return pairs, gone, [f for others in waiting.values() for f in others]


def _match(
    old: _Text, one: FunctionSpan, new: _Text, two: FunctionSpan, kind: str, found: dict[int, Matched]
) -> None:
    first, second = old.of(one), new.of(two)
    texts = [old.lines[n] for n in first], [new.lines[n] for n in second]
    for tag, a, b, c, d in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag == "equal":
            for n, m in zip(first[a:b], second[c:d], strict=True):
                found[n] = Matched(m, kind)
        elif tag == "replace":
            pairs = _alike(texts[0][a:b], texts[1][c:d])
            for i, j in pairs:
                found[first[a + i]] = Matched(second[c + j], "edited" if kind == "same" else kind)


def _alike(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of lines that resemble each other most, in both directions, and in order."""
    if max(len(old), len(new)) > MOST_REPLACED:
        return []
    every = {(i, j): resemblance(a, b) for i, a in enumerate(old) for j, b in enumerate(new)}
    words = [[frozenset(_WORD.findall(line)) for line in side] for side in (old, new)]
    ratios = {pair: ratio for pair, ratio in every.items() if ratio >= EDITED}
    pairs = []
    for (i, j), ratio in ratios.items():
        rivals = [r for (x, y), r in ratios.items() if (x == i) != (y == j)]
        if all(ratio > rival for rival in rivals) and not _split(i, j, *words) and not _split(j, i, *reversed(words)):
            pairs.append((i, j))
    pairs.sort()
    # Lines do not overtake one another within an edit: a crossing pair is a coincidence.
    return [p for p in pairs if all((p[0] - q[0]) * (p[1] - q[1]) > 0 for q in pairs if q != p)]


def _split(i: int, j: int, old: Sequence[frozenset[str]], new: Sequence[frozenset[str]]) -> bool:
    """Whether line i became several lines, of which j is one: what j lacks of it stands in another new line, which
    nothing old explains better. Which of them is the line then, nobody can say.
    """
    lacks = old[i] - new[j]
    return bool(lacks) and any(
        lacks <= line and not any(lacks <= other for at, other in enumerate(old) if at != i)
        for at, line in enumerate(new) if at != j
    )  # fmt: skip


def resemblance(one: str, two: str) -> float:
    """``difflib``'s ratio, the same in both directions; 0 where the lengths alone rule out ``EDITED``.

    A keyword that both begin with (``return``) says nothing about whether they are one line. What begins a block
    (``for x in y:``) and what does not are two lines.
    """
    if bool(_BLOCK.match(one)) != bool(_BLOCK.match(two)):
        return 0.0
    keyword = _KEYWORD.match(one)
    if keyword and two.startswith(keyword[0]):
        one, two = one[keyword.end() :], two[keyword.end() :]
    shorter, longer = sorted((len(one), len(two)))
    if longer == 0 or 2 * shorter / (shorter + longer) < EDITED:
        return 0.0
    return max(SequenceMatcher(None, one, two, autojunk=False).ratio(),
               SequenceMatcher(None, two, one, autojunk=False).ratio())  # fmt: skip


def _renamed(
    old: _Text, gone: Sequence[FunctionSpan], new: _Text, come: Sequence[FunctionSpan]
) -> list[tuple[FunctionSpan, FunctionSpan]]:
    """Functions whose bodies resemble each other most, in both directions."""
    if not gone or not come or max(len(gone), len(come)) > MOST_FUNCTIONS:
        return []
    ratios: dict[tuple[int, int], float] = {}
    for i, one in enumerate(gone):
        for j, two in enumerate(come):
            ratio = body_resemblance([old.lines[n] for n in old.of(one)], [new.lines[n] for n in new.of(two)])
            if ratio >= RENAMED:
                ratios[i, j] = ratio
    return [
        (gone[i], come[j])
        for (i, j), ratio in ratios.items()
        if all(ratio > rival for (x, y), rival in ratios.items() if (x == i) != (y == j))
    ]


def body_resemblance(one: Sequence[str], two: Sequence[str]) -> float:
    """How alike two bodies are: the ratio of their lines without the ``def``, which a rename changes."""
    first, second = ([line for line in body if not line.startswith(("def ", "async def "))] for body in (one, two))
    return SequenceMatcher(None, first, second, autojunk=False).ratio() if first and second else 0.0


def _moved(
    old: _Text, left: Iterable[int], new: _Text, right: Iterable[int], found: dict[int, Matched]
) -> None:
    """Lines that are the only ones of their text among what is left on either side."""
    one, two = _single(old.lines, left), _single(new.lines, right)
    for text, line in one.items():
        if text in two:
            found[line] = Matched(two[text], "moved")


def _single(lines: Sequence[str], numbers: Iterable[int]) -> Mapping[str, int]:
    seen: dict[str, list[int]] = {}
    for number in numbers:
        if len(lines[number]) >= SHORTEST_MOVED:
            seen.setdefault(lines[number], []).append(number)
    return {text: found[0] for text, found in seen.items() if len(found) == 1}
