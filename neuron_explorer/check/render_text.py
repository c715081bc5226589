"""A result as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.differences import Difference
from neuron_explorer.check.headline import headline, tool_line
from neuron_explorer.check.result import Result
from neuron_explorer.check.words import budget_line, cause, from_to, name_of, time_line, timed

MOST_SHOWN: Final = 25


def render_text(result: Result) -> str:
    """For a terminal or a log, the worst first."""
    lines = [tool_line(), headline(result)]
    lines += [f"note: {plain(note, 400)}" for note in result.notes]
    if result.differences is not None:
        lines += [f"note: {name} was {plain(before)}, is {plain(after)}" for name, before, after in
                  result.differences.apart]  # fmt: skip
    lines += [f"budget exceeded: {budget_line(b)}" for b in result.exceeded]
    for budget in result.exceeded:
        lines += [f"    {n:,}  {f'{file}:{line}' if line > 0 else ' '.join(key)}" for key, n, file, line in
                  budget.places[:5]]  # fmt: skip
    lines += _section("regression", result.blocking)
    lines += [f"not observed: {plain(what)}: {plain(reason, 300)}" + (f"; {how}" if how else "")
              for what, reason, how in result.unseen]  # fmt: skip
    lines += _section("suspicious", result.warnings)
    lines += _section("improvement", result.improvements)
    lines += [f"unstable, never blocks: {name_of(d)}: {from_to(d)}" for d in result.unstable[:5]]
    if len(result.unstable) > 5:
        lines.append(f"    and {q.plural(len(result.unstable) - 5, 'more unstable key')}")
    for a in result.allowed:
        lines.append(f"allowed: {name_of(a.difference)}: {from_to(a.difference)} ({plain(a.by.reason)})")
    for e in result.expired:
        lines.append(f"allowance expired on {e.until}: {plain(e.reason)} ({e.rule or e.place or e.op})")
    lines += [budget_line(b) for b in result.budgets if not b.exceeded and b.value is not None]
    lines += [time_line(name, c) for name, c in timed(result.times)]
    if result.accept and (result.blocking or result.improvements or result.warnings):
        lines += ["", f"accept all of it: {result.accept}"]
    if result.proposed:
        lines.append(f"proposed baseline of the counts of this run: {plain(result.proposed, 400)}")
    return "\n".join(lines) + "\n"


def _section(word: str, found: Iterable[Difference]) -> list[str]:
    rows = list(found)
    lines = []
    for d in rows[:MOST_SHOWN]:
        lines.append(f"{word}: {d.group.title}: {name_of(d)}: {from_to(d)}")
        if word == "regression":
            lines.append(f"    likely: {cause(d, rows)}")
    if len(rows) > MOST_SHOWN:
        lines.append(f"    and {q.plural(len(rows) - MOST_SHOWN, 'more ' + word)}")
    return lines
