"""Which line of one run is which of another: by place, then through the edits between their sources."""

from __future__ import annotations

from dataclasses import dataclass

from neuron_explorer.analysis.line_matching import match_lines
from neuron_explorer.analysis.place import Place, portable
from neuron_explorer.comparing.run import Line, Run


@dataclass(frozen=True)
class LinePair:
    """``before`` and ``after``: None on the side that does not have the line. ``how``: ``same``, ``edited``,
    ``renamed``, ``moved``, ``added`` or ``removed``.
    """

    before: Line | None
    after: Line | None
    how: str


def pair_lines(before: Run, after: Run) -> tuple[LinePair, ...]:
    """Every line of both runs, each in one pair."""
    pairs: list[LinePair] = []
    left, right = dict.fromkeys(before.lines), dict.fromkeys(after.lines)
    for one in [line for line in left if not line[0]]:  # time without a line pairs by its reason
        if one in right:
            pairs.append(LinePair(one, one, "same"))
            del left[one], right[one]
    by_place: dict[Place, Line] = {}
    by_number: dict[Line, Line] = {}
    for line, place in after.places.items():
        by_place.setdefault(place, line)
        by_number.setdefault((portable(line[0]), *line[1:]), line)
    for line in list(left):
        place = before.places.get(line)
        if place is not None and place.text:
            other = by_place.get(place)
        else:  # without a source the number is all there is
            other = by_number.get((portable(line[0]), *line[1:]))
        if other is not None and other in right:
            pairs.append(LinePair(line, other, "same"))
            del left[line], right[other]
    pairs += _through_edits(before, left, after, right)
    pairs += [LinePair(line, None, "removed") for line in left]
    pairs += [LinePair(None, line, "added") for line in right]
    return tuple(pairs)


def _through_edits(
    before: Run, left: dict[Line, None], after: Run, right: dict[Line, None]
) -> list[LinePair]:
    """Pairs found by comparing the sources of each file; they leave ``left`` and ``right``."""
    texts = {portable(file): text for file, text in after.sources.items()}
    later: dict[tuple[str, int], Line] = {}
    for line in right:
        later.setdefault((portable(line[0]), line[1]), line)
    pairs = []
    for file, text in before.sources.items():
        path = portable(file)
        lines = [line for line in left if line[0] == file]
        if not lines or path not in texts:
            continue
        found = match_lines(text, texts[path]) if text != texts[path] else None
        for line in lines:
            match = found.get(line[1]) if found is not None else None
            number = match.line if match else line[1] if found is None else -1
            other = later.get((path, number))
            if other is not None and other in right:
                pairs.append(LinePair(line, other, match.kind if match else "same"))
                del left[line], right[other]
    return pairs

