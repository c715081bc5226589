"""The filters that every figure follows: steps, phase, rank, device, process.

They stand in an address under the keys of ``KEYS`` and on the command line as options. What they
do to the rows, ``selection.select`` knows; what a trace has to choose from, ``filter_choices``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from neuron_explorer.analysis.plain import plain
from neuron_explorer.trace.schema import PHASES

KEYS: Final = ("period", "phase", "rank", "device", "process")
"""The filters as an address names them, in the order in which they are shown."""

NAMES: Final = {"period": "steps", "phase": "phase", "rank": "rank", "device": "device", "process": "process"}
"""Each in a word."""

PERIODS: Final = ("auto", "steady", "all")
HOST: Final = "cpu"
"""The device of events without a tensor (backward nodes, ranges): the host runs them."""

_RANGE: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_DEVICE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}(:[0-9]{1,6})?")


@dataclass(frozen=True)
class Choices:
    """What a trace has to choose from. ``steps``: numbers of the steps of the main processes, each once.

    ``steady``: how many of them are steady. ``phases``: those of operators. ``devices``: of tensors of
    operators, the host first. ``processes``: id and name, main ones first. ``ranks`` by number.
    """

    steps: tuple[int, ...] = ()
    steady: int = 0
    phases: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    processes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Filter:
    """A choice. ``period``: ``auto`` (steady steps where there are any), ``steady``, ``all`` or a range
    of steps, both ends included (``3-7``). ``phases``: none for all of them. ``rank``: None for all.
    ``device``: "" for all. ``process``: None for the one that takes the steps.
    """

    period: str = "auto"
    phases: tuple[str, ...] = ()
    rank: int | None = None
    device: str = ""
    process: int | None = None

    @staticmethod
    def from_search(search: Mapping[str, str], choices: Choices) -> tuple[Filter, tuple[str, ...]]:
        """The filters of an address, and in words what in it is no filter of this trace and is ignored."""
        found, wrong = Filter(), []
        period = search.get("period", "")
        if period not in ("", *PERIODS) and not _has_steps(period, choices.steps):
            wrong.append(_no_period(period, choices))
        elif period == "steady" and not choices.steady:
            wrong.append("no step of this trace is steady")
        elif period:
            found = replace(found, period="auto" if period == "steady" else period)
        phases = [p.strip() for p in search.get("phase", "").split(",") if p.strip()]
        unknown = [p for p in phases if p not in PHASES]
        wrong += [f"no phase is called {_quoted(p)}: there are {', '.join(PHASES)}" for p in unknown[:1]]
        if not unknown:
            found = replace(found, phases=ordered(phases))
        rank = _among(search, "rank", choices.ranks, wrong)
        process = _among(search, "process", tuple(number for number, _ in choices.processes), wrong)
        device = search.get("device", "")
        if device and device not in choices.devices:
            there = f": there is {' and '.join(choices.devices)}" if choices.devices else ""
            wrong.append(f"no operator of this trace ran on {_quoted(device)}{there}")
            device = ""
        return replace(found, rank=rank, process=process, device=device), tuple(wrong)

    def in_address(self) -> dict[str, str]:
        """As an address holds it: nothing for what is not chosen."""
        values = {
            "period": "" if self.period == "auto" else self.period,
            "phase": ",".join(self.phases),
            "rank": "" if self.rank is None else str(self.rank),
            "device": self.device,
            "process": "" if self.process is None else str(self.process),
        }
        return {key: value for key, value in values.items() if value}

    def only(self, keys: Iterable[str]) -> Filter:
        """The same without the filters that are not among ``keys``."""
        kept, none = set(keys), Filter()
        return Filter(
            self.period if "period" in kept else none.period,
            self.phases if "phase" in kept else none.phases,
            self.rank if "rank" in kept else none.rank,
            self.device if "device" in kept else none.device,
            self.process if "process" in kept else none.process,
        )

    @property
    def parts(self) -> bool:
        """It leaves out some of the operators of a step."""
        return bool(self.phases or self.device)

    @property
    def words(self) -> dict[str, str]:
        """What is chosen, in words, by key."""
        between = step_range(self.period)
        said: dict[str, str] = {}
        if between is not None:
            said["period"] = f"step {between[0]}" if between[0] == between[1] else f"steps {between[0]} to {between[1]}"
        elif self.period == "all":
            said["period"] = "whole run"
        if self.phases:
            said["phase"] = " and ".join(self.phases)
        if self.rank is not None:
            said["rank"] = f"rank {self.rank}"
        if self.device:
            said["device"] = f"device {plain(self.device, 60)}"
        if self.process is not None:
            said["process"] = f"process {self.process}"
        return said


NO_FILTER: Final = Filter()
"""Nothing is chosen."""


def step_range(period: str) -> tuple[int, int] | None:
    """The first and the last step of ``3-7``; None for anything else."""
    found = _RANGE.fullmatch(period)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return (first, last) if first <= last else None


def is_device(name: str) -> bool:
    """It is a device as torch writes it, and safe within SQL."""
    return _DEVICE.fullmatch(name) is not None


def ordered(phases: Iterable[str]) -> tuple[str, ...]:
    """Phases once each, in the order of the schema; all of them are no filter."""
    found = tuple(phase for phase in PHASES if phase in set(phases))
    return () if len(found) == len(PHASES) else found


def _has_steps(period: str, steps: tuple[int, ...]) -> bool:
    between = step_range(period)
    return between is not None and any(between[0] <= step <= between[1] for step in steps)


def _no_period(period: str, choices: Choices) -> str:
    if step_range(period) is None:
        return f"{_quoted(period)} is no range of steps: write 3-7, or all"
    if not choices.steps:
        return "this trace has no steps to choose from"
    return f"the trace has no step in {_quoted(period)}: its steps are {min(choices.steps)} to {max(choices.steps)}"


def _among(search: Mapping[str, str], key: str, known: tuple[int, ...], wrong: list[str]) -> int | None:
    text = search.get(key, "")
    if not text:
        return None
    if _NUMBER.fullmatch(text) and int(text) in known:
        return int(text)
    wrong.append(f"the trace has no {key} {_quoted(text)}")
    return None


def _quoted(text: str) -> str:
    return f"“{plain(text, 40)}”"
