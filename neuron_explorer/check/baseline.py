"""The baseline: a small sorted text that is read in a review.

::

    # neuron-explorer baseline 1
    @recordings 2
    @torch 2.13.0

    [operators] per step
    24  aten::mm  ["float32","float32"]  [[128,256],[256,64]]
    3..5  aten::relu  ["float32"]  [[8]]

A line is a count and the fields of its key, two blanks apart. A field with blanks or quotes is a
JSON string. ``3..5`` differed between recordings or steps: it is listed and never blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from neuron_explorer.check.counts import RANKS, Count, Counts, Key
from neuron_explorer.check.groups import GROUPS
from neuron_explorer.errors import NeuronExplorerError

VERSION: Final = 1
MOST_BYTES: Final = 32 << 20
_HEAD: Final = "# neuron-explorer baseline "
_SIMPLE: Final = re.compile(r"[^\s\"#@\\]\S*(?: \S+)*")
_COUNT: Final = re.compile(r"(\d{1,18})(?:\.\.(\d{1,18}))?")
_SECTION: Final = re.compile(r"\[([a-z_]{1,60})\](?: not observed: (.*)| per (?:step|run))?")


class BaselineError(NeuronExplorerError):
    """A baseline that cannot be read: where and why."""

    exit_code = 4


class NoBaselineError(NeuronExplorerError):
    """There is no usable baseline."""

    exit_code = 3


@dataclass(frozen=True)
class Section:
    """The counts of one group; ``reason`` says why it was not observed, "" where it was."""

    counts: Mapping[Key, Count]
    reason: str = ""


@dataclass(frozen=True)
class Baseline:
    """What a baseline says. ``facts``: lines that begin with ``@``."""

    sections: Mapping[str, Section]
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def recordings(self) -> int:
        """How many recordings it was made of."""
        text = self.facts.get("recordings", "1")
        return int(text[:9]) if text.isdecimal() else 1

    @property
    def steps(self) -> int:
        """Steady steps of its shortest recording; 0 where there were none or it does not say."""
        text = self.facts.get("steady_steps", "")
        return int(text[:9]) if text.isdecimal() else 0

    @property
    def whole_run(self) -> bool | None:
        """Whether it counts whole runs for want of steady steps; None where it does not say."""
        text = self.facts.get("steady_steps", "")
        return int(text[:9]) == 0 if text.isdecimal() else None


def baseline_of(recordings: Iterable[Counts]) -> Baseline:
    """One baseline of several recordings: a key that differs between them is a range.

    A group that one of them could not observe is not observed.
    """
    every = list(recordings)
    if not every:
        raise NoBaselineError("a baseline needs at least one recording.")
    if len({counts.steps == 0 for counts in every}) > 1:
        raise NoBaselineError(
            "one recording has steady steps and another has none: their counts are of a step and of a whole run; "
            "record at least three steps each time."
        )
    ranks = sorted({counts.environment.get(RANKS, "1") for counts in every}, key=lambda text: (len(text), text))
    if len(ranks) > 1:
        raise NoBaselineError(
            f"one recording is of {ranks[0]} and another of {ranks[-1]} ranks: their counts are not of the same thing; "
            "give recordings of as many ranks each."
        )
    sections = {}
    for name in GROUPS:
        parts = [counts.groups[name] for counts in every]
        reason = next((p.reason or "not observed" for p in parts if not p.observed), "")
        sections[name] = Section({} if reason else _joined([p.counts for p in parts]), reason)
    facts = {"recordings": str(len(every)), "steps": every[0].rule or "not observed",
             "steady_steps": str(min(counts.steps for counts in every))}  # fmt: skip
    for key in sorted({key for counts in every for key in counts.environment}):
        values = sorted({counts.environment.get(key, "") for counts in every})
        facts[key] = " or ".join(v for v in values if v)
    return Baseline(sections, facts)


def _joined(parts: list[Mapping[Key, Count]]) -> dict[Key, Count]:
    none = Count(0, 0)
    joined = {}
    for key in sorted({key for part in parts for key in part}):
        count = parts[0].get(key, none)
        for part in parts[1:]:
            count = count.joined(part.get(key, none))
        joined[key] = count
    return joined


def baseline_text(baseline: Baseline) -> str:
    """The text of a baseline."""
    lines = [
        f"{_HEAD}{VERSION}",
        "# Counts of a steady step, or of the run where a section says so. Review it like code: each line is something",
        "# that the program does. 3..5 differed between recordings; it is shown and never fails a check.",
        *(f"@{key} {_one_line(value)}" for key, value in baseline.facts.items()),
    ]
    for name, section in baseline.sections.items():
        if section.reason:
            lines += ["", f"[{name}] not observed: {_one_line(section.reason)}"]
            continue
        lines += ["", f"[{name}] per {GROUPS[name].per}"]
        lines += [f"{_written(count)}  {'  '.join(map(_quoted, key))}" for key, count in sorted(section.counts.items())]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _written(count: Count) -> str:
    return str(count.low) if count.steady else f"{count.low}..{count.high}"


def _quoted(text: str) -> str:
    return text if _SIMPLE.fullmatch(text) and "  " not in text and text.isprintable() else json.dumps(text)


def parse_baseline(text: str, shown: str) -> Baseline:
    """Read a baseline; ``shown`` names it in errors. Raises ``BaselineError`` with the line that is wrong."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[0].startswith(_HEAD):
        raise BaselineError(f"{shown} is no baseline: its first line is not {_HEAD.strip()!r}.")
    version = lines[0][len(_HEAD) :].strip()
    if not version.isdecimal():
        raise BaselineError(f"{shown}, line 1: {version[:40]!r} is no version.")
    if int(version[:9]) > VERSION:
        raise BaselineError(
            f"{shown} was written by a newer neuron-explorer (baseline {version[:9]}, this one reads up to {VERSION}); "
            "upgrade with `pip install -U neuron-explorer`."
        )
    facts: dict[str, str] = {}
    counts: dict[str, dict[Key, Count]] = {}
    reasons: dict[str, str] = {}
    current = ""
    for number, line in enumerate(lines[1:], 2):
        where = f"{shown}, line {number}"
        if line.startswith(("<<<<<<<", "=======", ">>>>>>>", "|||||||")):
            raise BaselineError(f"{where}: a merge conflict is not resolved; choose a side, or make the baseline anew.")
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("@"):
            key, _, value = line[1:].partition(" ")
            facts[key] = value
        elif line.startswith("["):
            current = _section(line, where, counts, reasons)
        else:
            if not current:
                raise BaselineError(f"{where}: a count before the first [group].")
            key, count = _entry(line, current, where)
            if key in counts[current]:
                raise BaselineError(f"{where}: the key is there twice in [{current}].")
            counts[current][key] = count
    return Baseline({name: Section(found, reasons.get(name, "")) for name, found in counts.items()}, facts)


def _section(line: str, where: str, counts: dict[str, dict[Key, Count]], reasons: dict[str, str]) -> str:
    found = _SECTION.fullmatch(line.strip())
    if found is None or found[1] not in GROUPS:
        raise BaselineError(f"{where}: {line[:60]!r} is no group; there are {', '.join(GROUPS)}.")
    if found[1] in counts:
        raise BaselineError(f"{where}: [{found[1]}] is there twice.")
    counts[found[1]] = {}
    if found[2] is not None:
        reasons[found[1]] = found[2] or "not observed"
    return found[1]


def _entry(line: str, group: str, where: str) -> tuple[Key, Count]:
    number, _, rest = line.partition("  ")
    count = _COUNT.fullmatch(number.strip())
    if count is None:
        raise BaselineError(f"{where}: {number[:40]!r} is no count (12, or 3..5).")
    low = int(count[1])
    high = int(count[2]) if count[2] else low
    if high < low:
        raise BaselineError(f"{where}: in {number[:40]!r} the second number is the smaller one.")
    key = tuple(_fields(rest, where))
    wanted = GROUPS[group].fields
    if len(key) != len(wanted):
        raise BaselineError(
            f"{where}: {len(key)} fields where [{group}] has {len(wanted)} ({', '.join(wanted)}), two blanks apart."
        )
    return key, Count(low, high)


def _fields(text: str, where: str) -> Iterable[str]:
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        if text[at] == '"':
            try:
                value, at = decoder.raw_decode(text, at)
            except ValueError:
                raise BaselineError(f"{where}: a quoted field does not end.") from None
            if text[at : at + 2] not in ("", "  "):
                raise BaselineError(f"{where}: two blanks must follow a quoted field.")
            yield str(value)
        else:
            end = text.find("  ", at)
            end = len(text) if end < 0 else end
            yield text[at:end]
            at = end
        at += 2
