"""What differs between a baseline and a run, exactly and in both directions.

A key that both have with one count each either agrees or is a finding. A key that only one side
has is a finding, never skipped. A count that varied between steps or recordings is listed and does
not block. Where torch, the CPU or its threads differ, other inner operators are to be expected:
only groups that do not depend on them (``Group.firm``) still block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from neuron_explorer.check.baseline import Baseline, Section
from neuron_explorer.check.counts import Count, Counted, Counts, Key
from neuron_explorer.check.groups import GROUPS, Group

LOST_CAPTURE: Final = 0.5
"""Fewer launches than this share of the baseline's are taken for a recording that saw too little."""
ALIKE: Final = ("torch", "python", "device", "chip", "cpu", "threads")
"""Facts of the environment on which the operators of a step depend."""

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
    ``lost``: the run has so few launches that the recording must have missed most of it.
    """

    found: tuple[Difference, ...]
    unseen: tuple[Unseen, ...]
    compared: int
    apart: tuple[tuple[str, str, str], ...]
    lost: bool

    def of(self, verdict: str) -> tuple[Difference, ...]:
        """The findings of one verdict."""
        return tuple(d for d in self.found if d.verdict == verdict)


def differences(baseline: Baseline, run: Counts, *, tolerance: Mapping[str, float] | None = None) -> Differences:
    """Compare. ``tolerance``: by group, the relative change that is none (peak memory)."""
    apart = _apart(baseline, run)
    soft = any(name in ALIKE for name, _, _ in apart)
    found: list[Difference] = []
    unseen: list[Unseen] = []
    compared = 0
    for name, counted in run.groups.items():
        section = baseline.sections.get(name)
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
        found += _in_group(section, counted, soft, (tolerance or {}).get(name, 0.0))
    lost = _lost(baseline, run)
    order = {verdict: i for i, verdict in enumerate(VERDICTS)}
    groups = list(GROUPS)
    found.sort(
        key=lambda d: (
            order[d.verdict], not d.group.firm, groups.index(d.group.name), _ORDER.index(d.change), -d.size, d.key
        )
    )  # fmt: skip
    return Differences(tuple(found), tuple(unseen), compared, apart, lost)


def _apart(baseline: Baseline, run: Counts) -> tuple[tuple[str, str, str], ...]:
    found = []
    for name, after in run.environment.items():
        before = baseline.facts.get(name, "")
        if before and after not in before.split(" or "):
            found.append((name, before, after))
    return tuple(found)


def _in_group(section: Section, counted: Counted, soft: bool, tolerance: float) -> list[Difference]:
    group = counted.group
    found = []
    for key in sorted({*section.counts, *counted.counts}):
        before, after = section.counts.get(key), counted.counts.get(key)
        change = _change(before, after, tolerance)
        if not change:
            continue
        verdict = _verdict(group, before, after, change, soft)
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


def _verdict(group: Group, before: Count | None, after: Count | None, change: str, soft: bool) -> str:
    if any(count is not None and not count.steady for count in (before, after)):
        return "unstable"
    if change in ("fewer", "gone"):
        return "improvement"
    return "regression" if group.firm or not soft else "suspicious"


def _moved(found: list[Difference]) -> list[Difference]:
    """Where something new is there, what is gone went somewhere: that is a change of the program, no improvement."""
    worse = [d for d in found if d.change in ("new", "more") and d.verdict in ("regression", "suspicious")]
    if not worse:
        return found
    verdict = worse[0].verdict
    return [
        Difference(d.group, d.key, d.before, d.after, d.change, verdict, d.file, d.line)
        if d.change == "gone" and d.verdict == "improvement"
        else d
        for d in found
    ]


def _lost(baseline: Baseline, run: Counts) -> bool:
    section = baseline.sections.get("launches")
    before = section.counts.get(("total",)) if section else None
    after = run.groups["launches"].counts.get(("total",)) if "launches" in run.groups else None
    return before is not None and (after.high if after else 0) < LOST_CAPTURE * before.low
