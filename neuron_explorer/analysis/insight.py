"""What an insight is: a finding of a rule, with its evidence, its possible gain and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_explorer.analysis import quantity as q

if TYPE_CHECKING:
    from neuron_explorer.analysis.alert import Alerts
    from neuron_explorer.analysis.bottlenecks import Table
    from neuron_explorer.analysis.breakdown import TimeBreakdown
    from neuron_explorer.analysis.facts import RunFacts
    from neuron_explorer.analysis.hardware_bound import HardwareBound
    from neuron_explorer.analysis.memory_leaks import Leaks
    from neuron_explorer.analysis.phases import Breakdown
    from neuron_explorer.analysis.steps import StepTimes
    from neuron_explorer.analysis.waste import Waste
    from neuron_explorer.trace.device_profile import DeviceProfile


@dataclass(frozen=True)
class Rule:
    """One rule. ``threshold``: at or above it (below it, where ``below``) there is a finding; its ``unit`` is one of
    ``answer.UNITS``. ``level``: ``problem`` (the figures may mislead), ``cost`` (time that could go) or ``note``.
    ``gain``: least and most of the time involved that can go. ``source``: where rule and threshold are from.
    """

    key: str
    measures: str
    threshold: float
    unit: str
    level: str
    gain: tuple[float, float] = (0.0, 0.0)
    source: str = "this tool's own"
    below: bool = False
    deep: bool = False

    def passed(self, measured: float) -> bool:
        """Whether there is something to say."""
        return measured < self.threshold if self.below else measured >= self.threshold


@dataclass(frozen=True)
class Finding:
    """One sentence, one line of evidence, the possible gain, and where.

    ``level``: as of its rule. ``gain``: in words, "" when there is none; ``gain_ns``: least and most,
    of a step where there are steps, else of the run; never more than the time involved.
    ``action``: what to do next. ``weight`` orders them. ``step``: the step to look at, -1 for none.
    ``alert``: id of the alert that it is. ``event``: id of an event that shows it, -1 for none.
    ``report``: the report that holds all of the evidence.
    """

    key: str
    level: str
    title: str
    evidence: str
    gain: str = ""
    gain_ns: tuple[float, float] | None = None
    action: str = ""
    weight: float = 0.0
    file: str = ""
    line: int = -1
    step: int = -1
    alert: str = ""
    event: int = -1
    report: str = ""


@dataclass(frozen=True)
class Look:
    """What rules look at. ``waste`` and ``bound`` are None in a quick look; ``device`` where no stream was recorded,
    ``leaks`` where memory was not, ``profile`` where the trace is of no NeuronCore's own profile.
    """

    facts: RunFacts
    steps: StepTimes
    breakdown: Breakdown
    lines: Table
    alerts: Alerts | None = None
    waste: Waste | None = None
    bound: HardwareBound | None = None
    device: TimeBreakdown | None = None
    leaks: Leaks | None = None
    profile: DeviceProfile | None = None

    def device_share(self, *parts: str) -> float | None:
        """Share of these parts of ``breakdown`` in the steps, over all ranks; None without streams."""
        if self.device is None:
            return None
        whole = sum(window.total_ns for window in self.device.windows)
        sums = [self.device.sums(rank) for rank in {window.rank for window in self.device.windows}]
        return sum(each[part] for each in sums for part in parts) / whole if whole else None

    @property
    def unit_ns(self) -> float:
        """ns of a step, a mean (of the run without steps)."""
        return self.breakdown.total_ns / max(self.breakdown.steps, 1)

    @property
    def of(self) -> str:
        """What shares are of, in words."""
        if not self.breakdown.steps:
            return "of the run"
        return "of a step" if self.breakdown.selection.period == "range" else "of a steady step"

    def amount(self, ns: float) -> str:
        """A time of the selection as one of a step, in words."""
        return f"{q.duration(ns / max(self.breakdown.steps, 1))}" + (" a step" if self.breakdown.steps else "")


@dataclass(frozen=True)
class Checked:
    """A rule and what it measured (None: it could not look, ``why`` says the reason); and its findings."""

    rule: Rule
    measured: float | None
    findings: tuple[Finding, ...] = ()
    why: str = ""


Check = Callable[[Look], list[Checked]]


def gains(rule: Rule, look: Look, involved_ns: float) -> tuple[str, tuple[float, float] | None]:
    """The gain of a finding in words and in ns of a step (of the run), from the time of the selection that is involved.

    Never more than the whole of the step.
    """
    low, high = rule.gain
    whole = look.unit_ns
    if high <= 0 or whole <= 0 or involved_ns <= 0:
        return "", None
    each = min(involved_ns / max(look.breakdown.steps, 1), whole)
    least, most = low * each, high * each
    if least > 0:
        return f"{q.share(least / whole)} to {q.share(most / whole)} {look.of}" if least < most else (
            f"{q.share(most / whole)} {look.of}"), (least, most)  # fmt: skip
    return f"up to {q.share(most / whole)} {look.of}", (0.0, most)
