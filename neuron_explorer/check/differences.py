"""What differs between a baseline and a run, exactly and in both directions.

A key that both have with one count each either agrees or is a finding. A key that only one side
has is a finding, never skipped. A count that varied between steps or recordings of the baseline is
listed and does not block; nor does one that varies now, unless nothing of its kind varied before, in
at least as many steps. Where torch, the CPU or its threads differ, other inner operators are to be expected:
only groups that do not depend on them (``Group.firm``) still block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from neuron_explorer.check.baseline import Baseline, Section
from neuron_explorer.check.counts import RANKS, Count, Counted, Counts, Key
from neuron_explorer.check.groups import Group

LOST_CAPTURE: Final = 0.5
"""Fewer launches than this share of the baseline's are taken for a recording that saw too little."""
ALIKE: Final = ("torch", "python", "device", "chip", "cpu", "threads")
"""Facts of the environment on which the operators of a step depend."""

FEW: Final = 5
"""Keys a side from which a baseline that has none of them is taken for another program's."""

_LINE: Final = re.compile(r":\d+$")
_WORST: Final = (
    "recompiles", "graph_breaks", "fallbacks", "synchronisations", "copies", "collectives", "lines", "operators",
    "launches", "compilations", "work", "peak_memory", "setup",
)  # fmt: skip
"""Groups in the order in which they are shown: what names a line and a cause first, sums last."""
_ORDER: Final = ("new", "more", "fewer", "gone")
VERDICTS: Final = ("regression", "suspicious", "improvement", "unstable")
"""Of a finding, worst first."""


@dataclass(frozen=True)
class Difference:
    """One key that differs. ``change``: ``more``, ``fewer``, ``new`` or ``gone``; ``verdict``: one of ``VERDICTS``.

    ``before`` and ``after``: None where the side does not have the key. ``file`` and ``line``: to look at.
    """

    group: Group
    key: Key
    before: Count | None
    after: Count | None
    change: str
    verdict: str
    file: str = ""
    line: int = -1

    @property
    def size(self) -> int:
        """By how much the counts are apart."""
        return abs((self.after.high if self.after else 0) - (self.before.high if self.before else 0))


@dataclass(frozen=True)
class Unseen:
    """A group that one side could not observe. ``side``: ``baseline`` or ``run``. ``how``: what records it."""

    group: Group
    side: str
    reason: str
    how: str


@dataclass(frozen=True)
class Differences:
    """``compared``: keys that both sides could see. ``apart``: (name, before, after) of what differs around it.
    ``lost``: why the recording must have missed most of the run, "" where it did not. ``foreign``: the baseline is of
    another program, so that nothing was compared.
    """

    found: tuple[Difference, ...]
    unseen: tuple[Unseen, ...]
    compared: int
    apart: tuple[tuple[str, str, str], ...]
    lost: str = ""
    foreign: bool = False

    def of(self, verdict: str) -> tuple[Difference, ...]:
        """The findings of one verdict."""
        return tuple(d for d in self.found if d.verdict == verdict)


def differences(baseline: Baseline, run: Counts, *, tolerance: Mapping[str, float] | None = None) -> Differences:
    """Compare. ``tolerance``: by group, the relative change that is none (peak memory)."""
    apart = _apart(baseline, run)
    of_ranks = next(((before, after) for name, before, after in apart if name == RANKS), None)
    if of_ranks is not None:
        why = f"the baseline is of {of_ranks[0]} ranks and this run of {of_ranks[1]}"
        group = run.groups["launches"].group
        return Differences((), (Unseen(group, "run", why, "run as many ranks, or make a new baseline"),), 0, apart)
    if _foreign(baseline, run):
        return Differences((), (), 0, apart, foreign=True)
    soft = any(name in ALIKE for name, _, _ in apart)
    lost = _lost(baseline, run)
    varying = _varying(baseline.sections.get("launches"))
    as_long = 0 < run.steps <= baseline.steps
    found: list[Difference] = []
    unseen: list[Unseen] = []
    compared = 0
    for name, counted in run.groups.items():
        section = baseline.sections.get(name)
        of_steps = counted.group.per == "step" or name == "setup"
        if of_steps and baseline.whole_run is not None and baseline.whole_run != (run.steps == 0):
            if baseline.whole_run and not unseen:
                unseen.append(Unseen(counted.group, "baseline", "it counts a whole run, and this run has steady steps",
                                     "make the baseline of a run with steps"))  # fmt: skip
            continue
        if section is None:
            if counted.observed and counted.counts:
                unseen.append(Unseen(counted.group, "baseline", "the baseline has no such section", ""))
            continue
        if section.reason and not counted.observed:
            continue
        if section.reason or not counted.observed:
            side = "baseline" if section.reason else "run"
            unseen.append(Unseen(counted.group, side, section.reason or counted.reason, counted.group.how))
            continue
        compared += len({*section.counts, *counted.counts})
        more = _in_group(section, counted, soft, (tolerance or {}).get(name, 0.0), as_long)
        # The first step is one of many: where steps differ, so does it.
        found += [replace(d, verdict="unstable") for d in more] if name == "setup" and varying else more
    order = {verdict: i for i, verdict in enumerate(VERDICTS)}
    found.sort(
        key=lambda d: (order[d.verdict], _WORST.index(d.group.name), _ORDER.index(d.change), -d.size, d.key)
    )
    return Differences(tuple(found), tuple(unseen), compared, apart, lost)


def _apart(baseline: Baseline, run: Counts) -> tuple[tuple[str, str, str], ...]:
    found = []
    for name, after in run.environment.items():
        before = baseline.facts.get(name, "")
        if before and after not in before.split(" or "):
            found.append((name, before, after))
    ranks, now = baseline.facts.get(RANKS) or "1", run.environment.get(RANKS, "1")
    if ranks != now and not any(name == RANKS for name, _, _ in found):
        found.append((RANKS, ranks, now))
    before, after = baseline.facts.get("steps", ""), run.rule or "not observed"
    if before and _LINE.sub("", before) != _LINE.sub("", after):
        found.append(("what a step is", before, after))
    return tuple(found)


def _in_group(
    section: Section, counted: Counted, soft: bool, tolerance: float, as_long: bool
) -> list[Difference]:
    group = counted.group
    # What varies where nothing did before is a change of the program, if the baseline saw as many steps.
    was_steady = as_long and not _varying(section)
    found = []
    for key in sorted({*section.counts, *counted.counts}):
        before, after = section.counts.get(key), counted.counts.get(key)
        change = _change(before, after, tolerance)
        if not change:
            continue
        verdict = _verdict(group, before, after, change, soft, was_steady)
        file, line = counted.places.get(key, ("", -1))
        found.append(Difference(group, key, before, after, change, verdict, file, line))
    return _moved(found)


def _change(before: Count | None, after: Count | None, tolerance: float) -> str:
    if before is None:
        return "new" if after is not None and after.high else ""
    if after is None:
        return "gone" if before.low else ""  # a range from 0 may well be absent
    if before.low <= after.low and after.high <= before.high:
        return ""
    if after.high > before.high:
        return "more" if after.high > before.high * (1 + tolerance) else ""
    return "fewer" if after.low < before.low * (1 - tolerance) else ""


def _verdict(
    group: Group, before: Count | None, after: Count | None, change: str, soft: bool, was_steady: bool
) -> str:
    if before is not None and not before.steady:
        return "unstable"
    worse = change in ("new", "more")
    if after is not None and not after.steady and not (worse and was_steady and group.per == "step"):
        return "unstable"
    if not worse:
        return "improvement"
    return "regression" if group.firm or not soft else "suspicious"


def _moved(found: list[Difference]) -> list[Difference]:
    """Where something new is there, what is gone went somewhere: that is a change of the program, no improvement."""
    worse = [d for d in found if d.change in ("new", "more") and d.verdict in ("regression", "suspicious")]
    if not worse:
        return found
    verdict = worse[0].verdict
    return [
        replace(d, verdict=verdict)
        if d.change == "gone" and d.verdict == "improvement"
        else d
        for d in found
    ]


def _lost(baseline: Baseline, run: Counts) -> str:
    if baseline.whole_run is False and not run.steps:
        return "no step of the recording is steady, and the baseline counts a steady step"
    section = baseline.sections.get("launches")
    before = section.counts.get(("total",)) if section else None
    launches = run.groups.get("launches")
    if launches is not None and not launches.observed:
        return ""  # said as not observed, with its reason
    after = launches.counts.get(("total",)) if launches is not None else None
    if before is not None and (after.high if after else 0) < LOST_CAPTURE * before.low:
        return "the recording saw less than half of the launches"
    return ""


def _varying(section: Section | None) -> bool:
    return section is not None and any(not count.steady for count in section.counts.values())


def _foreign(baseline: Baseline, run: Counts) -> bool:
    """No file and hardly an operator in common. What lost its capture has too few keys to tell."""
    for name, part in (("lines", 1), ("operators", 3)):
        section, counted = baseline.sections.get(name), run.groups.get(name)
        if section is None or counted is None or section.reason or not counted.observed:
            return False
        before, after = ({key[:part] for key in keys if key[0]} for keys in (section.counts, counted.counts))
        if name == "lines" and (not before or not after or before & after):
            return False
        if name == "operators" and (min(len(before), len(after)) < FEW or len(before & after) * 10 > len(before)):
            return False
    return True
