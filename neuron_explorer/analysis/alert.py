"""An alert: what happened, where, what it cost, and one piece of advice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from neuron_explorer.analysis.alert_thresholds import SEVERITIES
from neuron_explorer.analysis.compile_events import user_function

KINDS: Final[dict[str, str]] = {
    "recompile": "A function was compiled again.",
    "recompile_limit": "Dynamo gave up on a function: it runs eagerly from then on.",
    "graph_break": "Dynamo left the graph in the middle of a function.",
    "shape_churn": "A line keeps needing new artifacts of eager operators, because shapes change.",
    "compile_failed": "A compilation failed.",
    "compile_unended": "A compilation never ended.",
}
"""What an alert is about."""

NOT_OBSERVED: Final = "not observed"
"""What is shown where a guard's found value was not seen."""


@dataclass(frozen=True)
class Occurrence:
    """One time that it happened. Times in ns; ``event``: id of the row to jump to."""

    event: int
    start: int
    cost_ns: int
    compile_id: str = ""
    expected: str = ""
    actual: str = ""
    nth: int = -1
    step: int = -1
    period: str = ""
    caller_file: str = ""
    caller_line: int = -1
    caller_function: str = ""


@dataclass(frozen=True)
class Alert:
    """One alert, which stands for every time that it happened at this place for this reason.

    ``id``: 12 hex digits, the same in every run of the program as long as kind, cause, file,
    function and variable are the same: to suppress it by. ``title``: one line. ``evidence``: a
    sentence or two. ``advice``: one piece, with the user's names. ``file``, ``line``, ``function``:
    of the recompiled function or of the break. ``caller_*``: the user's call that led to it,
    "" and -1 when not observed. ``expected`` and ``actual``: of the last time, "" when not observed.
    ``share``: ``cost_ns`` as a fraction of the run. ``count``: how often here. ``nth`` and
    ``limit``: compilations of this place so far, and Dynamo's limit, -1 when not known.
    ``events``: rows to jump to. ``occurrences``: by time, bounded; ``more`` were not listed.
    ``reasons``: those of every cache entry at the last time, as the trace has them.
    ``library``: the function is not the user's, so that the call says more (``user_line``).
    ``code``: the source line, "" where the trace does not hold it. ``places``: further lines.
    """

    kind: str
    severity: str
    title: str
    evidence: str
    advice: str
    file: str
    line: int
    function: str
    cause: str = ""
    source: str = ""
    guard: str = ""
    expected: str = ""
    actual: str = ""
    dimension: int = -1
    caller_file: str = ""
    caller_line: int = -1
    caller_function: str = ""
    cost_ns: int = 0
    share: float = 0.0
    count: int = 1
    nth: int = -1
    limit: int = -1
    period: str = ""
    backend: str = ""
    process: int = -1
    rank: int = 0
    code: str = ""
    caller_code: str = ""
    library: bool = False
    events: tuple[int, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
    more: int = 0
    reasons: tuple[dict[str, Any], ...] = ()
    places: tuple[tuple[str, int, str], ...] = ()
    id: str = ""

    @property
    def where(self) -> str:
        """``file:line``, "" where there is none."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def user_line(self) -> tuple[str, int]:
        """File and line to show first: the user's call where the function is a library's."""
        return (self.caller_file, self.caller_line) if self.library and self.caller_file else (self.file, self.line)

    @property
    def caller(self) -> str:
        """``file:line`` of the user's call, "" where there is none."""
        return f"{self.caller_file}:{self.caller_line}" if self.caller_file else ""


@dataclass(frozen=True)
class Alerts:
    """The alerts of a trace, worst first.

    ``observed``: compilations could be seen; where not, ``reason`` says why and no alert means
    nothing. ``limits``: what an observing recorder could not see, in words. ``left_out``: alerts
    beyond the bound. ``suppressed``: alerts whose id was to be left out.
    """

    alerts: tuple[Alert, ...] = ()
    observed: bool = False
    reason: str = ""
    limits: tuple[str, ...] = ()
    left_out: int = 0
    suppressed: int = 0
    notes: tuple[str, ...] = field(default=())

    def counts(self) -> dict[str, int]:
        """Alerts by severity."""
        return {s: sum(a.severity == s for a in self.alerts) for s in SEVERITIES}


def alert_id(kind: str, cause: str, file: str, function: str, source: str) -> str:
    """What names an alert across runs: neither times nor line numbers are in it."""
    text = "\0".join((kind, cause, file.replace("\\", "/"), function, source))
    return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:12]


def with_ids(alerts: Iterable[Alert]) -> list[Alert]:
    """The alerts with their ids; those that would share one are told apart by their order in the file."""
    seen: dict[str, int] = {}
    numbered: list[Alert] = []
    for alert in sorted(alerts, key=lambda a: (a.file, a.line)):
        variable = alert.source or (_stable(alert.guard) if alert.kind == "graph_break" else "")
        # The name of what goes on after a break holds the line of the break.
        base = alert_id(alert.kind, alert.cause, alert.file, user_function(alert.function), variable)
        seen[base] = seen.get(base, 0) + 1
        name = base if seen[base] == 1 else f"{base}-{seen[base]}"
        title = alert.title[:1].upper() + alert.title[1:] if alert.title.startswith("the ") else alert.title
        numbered.append(replace(alert, id=name, title=title))
    return numbered


def _stable(text: str) -> str:
    """The first line of a reason without what differs between runs: addresses and numbers."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return re.sub(r"0x[0-9a-fA-F]+|\d+", "#", first)[:200]


def worst_first(alert: Alert) -> tuple[int, int, int, str, int, str]:
    """Sorting key: severity, cost, count, place."""
    return SEVERITIES.index(alert.severity), -alert.cost_ns, -alert.count, alert.file, alert.line, alert.id
