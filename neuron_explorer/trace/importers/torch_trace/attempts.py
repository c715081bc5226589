"""A compilation while its records are being read: attempts, open phases, what was said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...compile_phases import phase_of
from ...compile_spool import MAX_PHASES_OF_ONE
from ...compiles import GraphNode, Phase, Place
from .budget import Budget
from .texts import BreakRecord

__all__ = ["Attempt", "OpenCompile", "small_facts"]

_MAX_OPEN: Final = 200
_LEFT_OUT: Final = ("compile_id", "components", "cached_kernel_names", "key", "cache_event_time", "triton_bundler_meta")


@dataclass
class Attempt:
    """One attempt. Times are Unix nanoseconds, -1 while unknown."""

    key: int
    number: int
    start: int = -1
    end: int = -1
    graph: tuple[GraphNode, ...] = ()
    graph_ops: int = -1
    graph_truncated: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)
    guards: tuple[str, ...] = ()
    guard_count: int = -1
    cache: Counter[tuple[str, str]] = field(default_factory=Counter)
    facts: dict[str, Any] = field(default_factory=dict)
    breaks: list[tuple[int, BreakRecord]] = field(default_factory=list)  # time, break
    phases: list[tuple[str, int, int, dict[str, Any]]] = field(default_factory=list)  # label, start, end, facts
    error: str = ""

    def phase_rows(self, thread: int) -> list[Phase]:
        """The phases as the model has them."""
        return [
            Phase(self.key, phase_of(label), label, start, end, thread, facts)
            for label, start, end, facts in self.phases
        ]


@dataclass
class OpenCompile:
    """Everything with one compile id between its begin and its end: one attempt, or several after restarts."""

    compile_id: str
    trigger: str
    start: int
    opener: str  # the event whose end is the end; "" when no timed event began it
    number: int  # in order of the log
    budget: Budget
    attempts: dict[int, Attempt] = field(default_factory=dict)
    stack: list[Place] = field(default_factory=list)  # outermost first; the last is the compiled frame
    metrics: Mapping[str, Any] = field(default_factory=dict)
    limits: tuple[int, int] = (-1, -1)  # of compilations of one place, and of all
    reasons: list[str] = field(default_factory=list)
    inductor: bool = False
    end: int = -1
    last_seen: int = -1
    soft_end: int = -1  # of an inner envelope, for logs that lack the outer one's end
    open_phases: list[tuple[str, int, int, dict[str, Any]]] = field(default_factory=list)
    conflicts: set[int] = field(default_factory=set)  # numbers of compilations at the same time, so on other threads
    place: Place | None = None
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def closed(self) -> bool:
        """Whether the end was seen."""
        return self.end >= 0

    def begin_phase(self, label: str, time: int, attempt: int) -> None:
        """A part begins."""
        if len(self.open_phases) >= _MAX_OPEN:
            self.dropped["phases"] += 1
            return
        self.open_phases.append((label, time, attempt, {}))

    def end_phase(self, label: str, time: int, facts: dict[str, Any]) -> bool:
        """A part ends, and with it those inside it whose end is missing. False when it never began."""
        for depth in range(len(self.open_phases) - 1, -1, -1):
            if self.open_phases[depth][0] == label:
                break
        else:
            return False
        while len(self.open_phases) > depth:
            name, start, attempt, _ = self.open_phases.pop()
            self._add_phase(attempt, name, start, time, facts if len(self.open_phases) == depth else {})
        return True

    def cut_phases(self, time: int) -> None:
        """What is still open ends here (an exception or a restart left it), or never (-1)."""
        while self.open_phases:
            name, start, attempt, _ = self.open_phases.pop()
            self._add_phase(attempt, name, start, time, {})

    def _add_phase(self, number: int, label: str, start: int, end: int, facts: dict[str, Any]) -> None:
        attempt = self.attempts.get(number)
        if attempt is None:
            return
        if len(attempt.phases) >= MAX_PHASES_OF_ONE or not self.budget.part():
            self.dropped["phases"] += 1
            return
        attempt.phases.append((label, start, end if end < 0 else max(start, end), facts))


def small_facts(args: Any, most: int = 12) -> dict[str, Any]:
    """The plain values of an event's arguments that say something to a reader."""
    facts: dict[str, Any] = {}
    for name, value in args.items() if isinstance(args, dict) else ():
        if len(facts) >= most:
            break
        if name in _LEFT_OUT or len(name) > 100:
            continue
        if isinstance(value, (bool, int, float)) and abs(value) < 1 << 53:  # no nan, nothing that JSON's readers round
            facts[name] = value
        elif isinstance(value, str) and value:
            facts[name] = value[:200]
    return facts
