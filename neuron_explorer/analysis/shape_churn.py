"""Eager operators that keep needing new artifacts, because shapes keep changing.

A device without dynamic shapes compiles an operator once for each set of shapes and dtypes. The
first steps need artifacts; a line that still brings new ones later pays for them again and again.
One change of shapes reaches many lines, so lines that brought new artifacts in the same steps are
one alert, told by the line where the change showed first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import alert_thresholds as limits
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert, Occurrence
from neuron_explorer.analysis.compile_events import CompileEvents, Row
from neuron_explorer.analysis.flops import moves_nothing
from neuron_explorer.analysis.op_names import base_name
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.selection import kinds_sql, main_process
from neuron_explorer.analysis.source_line import code_at

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_MOST_NEW: Final = 100_000
_MOVED: Final = ("copy_", "_copy_from", "_to_copy")
"""Copies are the work of DMA engines: they need no artifact."""


@dataclass(frozen=True)
class Need:
    """A new artifact: an operator needed a set of shapes for the first time. Times in ns."""

    event: int
    start: int
    cost_ns: int
    name: str
    shapes: str
    file: str
    line: int
    function: str
    step: int
    period: str
    process: int
    rank: int
    before: str = ""  # the shapes that the operator had on this line until then


@dataclass
class _Line:
    file: str
    line: int
    function: str
    needs: list[Need]

    @property
    def steps(self) -> frozenset[int]:
        return frozenset(n.step for n in self.needs)


def churn_alerts(trace: Trace, events: CompileEvents) -> list[Alert]:
    """The alerts. Only of runs on a device that compiles eager operators."""
    needs = [_need(r) for r in events.eager if r.text("cache") != "hit"]
    seen = bool(needs)
    # The emulated device tells of every artifact, to the recorder that listens to it.
    if not needs and events.on_neuron and (not events.emulated or trace.metadata.get("recorder") == "twin"):
        needs = _predicted(trace)
    if not needs:
        return []
    first = min((n.step for n in needs if n.step >= 0), default=-1)
    stepped = _last_step(trace) >= 0
    late = _late(needs, first) if stepped else _late_without_steps(needs)
    lines: dict[tuple[str, int], _Line] = {}
    for need in late:
        key = (need.file, need.line)
        lines.setdefault(key, _Line(need.file, need.line, need.function, [])).needs.append(need)
    groups = _alike(list(lines.values())) if stepped else _alike_without_steps(list(lines.values()))
    return [_alert(group, events, stepped, seen, code_at(trace, group[0].file, group[0].line)) for group in groups]


def _need(row: Row) -> Need:
    return Need(
        row.id,
        row.start,
        row.cost,
        row.name,
        row.text("signature"),
        row.file,
        row.line,
        row.function,
        row.step,
        row.period,
        row.process,
        row.rank,
    )


def _predicted(trace: Trace) -> list[Need]:
    """First calls of each operator with its shapes, where the trace holds no compilations."""
    process = main_process(trace)
    where = "" if process is None else f" AND process = {int(process)}"
    table = trace.sql_arrow(
        'SELECT name, shapes, dtypes, arg_min(id, "start") AS id, min("start") AS "start", '
        'arg_min(file, "start") AS file, arg_min(line, "start") AS line, arg_min(function, "start") AS function, '
        'arg_min(step, "start") AS step, arg_min(period, "start") AS period '
        f"FROM (SELECT * FROM events WHERE {kinds_sql(('op',))} AND shapes IS NOT NULL AND device <> 'cpu'{where}) e "
        # Compiled graphs have artifacts of their own.
        "ASOF LEFT JOIN (SELECT lane, \"start\" AS began, duration AS took FROM events WHERE kind = 'launch') l "
        'ON e.lane = l.lane AND e."start" >= l.began WHERE l.began IS NULL OR e."start" >= l.began + l.took '
        f'GROUP BY name, shapes, dtypes ORDER BY "start" LIMIT {_MOST_NEW}'
    ).to_pylist()
    return [
        Need(
            r["id"],
            r["start"],
            0,
            r["name"],
            r["shapes"],
            r["file"],
            r["line"],
            r["function"] or "",
            r["step"],
            r["period"] or "",
            process if process is not None else -1,
            0,
        )
        for r in table
        if r["file"] and r["name"] and not moves_nothing(r["name"]) and base_name(r["name"]) not in _MOVED
    ]


def _last_step(trace: Trace) -> int:
    found = trace.sql_arrow("SELECT max(step) AS s FROM events WHERE kind = 'step'").column(0)[0].as_py()
    return -1 if found is None else int(found)


def _late(needs: Iterable[Need], first: int) -> list[Need]:
    """What a late step needed for an operator that earlier steps needed on the same line, with other shapes."""
    known: dict[tuple[str, int, str], list[str]] = {}
    late = []
    for need in needs:
        mine = known.setdefault((need.file, need.line, need.name), [])
        if need.step >= first + limits.LATE_STEP and mine:
            late.append(replace(need, before=_nearest(mine, need.shapes)))
        mine.append(need.shapes)
    return late


def _nearest(known: Sequence[str], shapes: str) -> str:
    """Of the last shapes the ones that differ least: an operator may be called with several sets a step."""
    wanted = _flat(shapes)

    def distance(other: str) -> tuple[int, int]:
        sizes = _flat(other)
        if len(sizes) != len(wanted):
            return 1000 + abs(len(sizes) - len(wanted)), 0
        return sum(a != b for a, b in zip(sizes, wanted, strict=True)), 0

    return min(reversed(known[-32:]), key=distance)


def _flat(text: str) -> list[int]:
    return [n for shape in _shapes(text) for n in shape]


def _late_without_steps(needs: Iterable[Need]) -> list[Need]:
    """Without steps: the third and later shapes of an operator on a line that has many."""
    by_key: dict[tuple[str, int, str], list[Need]] = {}
    for need in needs:
        by_key.setdefault((need.file, need.line, need.name), []).append(need)
    late = [
        replace(need, before=before.shapes)
        for found in by_key.values()
        if len(found) >= limits.CHURN_SHAPES
        for before, need in pairwise(found)
    ]
    return sorted(late, key=lambda n: n.start)


def _alike(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Lines whose new artifacts came in the same steps, the earliest first."""
    groups: dict[Any, list[_Line]] = {}
    for line in sorted(lines, key=lambda x: x.needs[0].start):
        steps = line.steps
        home = next((known for known in groups if steps <= known or known <= steps), None)
        if home is None:
            groups[steps] = [line]
        elif steps <= home:
            groups[home].append(line)
        else:
            members = groups.pop(home)
            groups[steps] = [*members, line]
    return [sorted(g, key=lambda x: x.needs[0].start) for g in groups.values()]


def _alike_without_steps(lines: Sequence[_Line]) -> list[list[_Line]]:
    """Lines that change at the same time: their spans of time overlap."""
    groups: list[list[_Line]] = []
    reached = -1
    for line in sorted(lines, key=lambda x: x.needs[0].start):
        if groups and line.needs[0].start <= reached:
            groups[-1].append(line)
        else:
            groups.append([line])
        reached = max(reached, line.needs[-1].start)
    return groups


def _alert(group: list[_Line], events: CompileEvents, stepped: bool, seen: bool, code: str) -> Alert:
    first = group[0]
    needs = sorted((n for line in group for n in line.needs), key=lambda n: n.start)
    steps = sorted({n.step for n in needs})
    cost = sum(n.cost_ns for n in needs)
    share = events.share(cost)
    sizes, growing = _sizes(first)
    number = _number(first)
    ragged = stepped and len(steps) == 1 and not number
    if number:
        sizes, growing = number, False
    if ragged:
        severity = limits.severity(cost, share, 1)
        title = f"Step {steps[0]} needed {q.plural(len(needs), 'new artifact')}: shapes differ from the other steps"
    else:
        many = len(needs) >= limits.HIGH_CHURN and (not stepped or len(steps) >= limits.CHURN_STEPS)
        severity = limits.severity(cost, share, 1, least="high" if many else "medium")
        what = "Whole numbers change" if number else "Shapes grow" if growing else "Shapes change"
        when = f"in {len(steps)} late steps" if stepped else "again and again"
        title = f"{what} at {plain(short_file(first.file), 60)}:{first.line}: {len(needs):,} new artifacts {when}"
    name = first.needs[-1].name
    parts = [f"{plain(name, 60)} met {sizes}" if sizes else plain(name, 60)]
    if len(group) > 1:
        parts.append(f"{q.plural(len(group) - 1, 'further line')} with it")
    if cost and not events.emulated:
        parts.append(f"{q.duration(cost)} of compiling, {q.share(share)} of the run")
    if events.emulated:
        parts.append("on the device each is a compilation of seconds or more")
    elif not seen:
        parts.append("compilations were not seen: these are first calls with new shapes")
    return Alert(
        "shape_churn",
        severity,
        title,
        "; ".join(parts) + ".",
        _advice(first, ragged, growing, code) if not number else _number_advice(first),
        first.file,
        first.line,
        first.function,
        cause="number" if number else "ragged" if ragged else "growing" if growing else "varying",
        source=name,
        expected=_first_size(sizes),
        actual=_last_size(sizes),
        cost_ns=cost,
        share=share,
        count=len(needs),
        period=needs[-1].period,
        backend="eager",
        process=needs[0].process,
        rank=needs[0].rank,
        events=tuple(n.event for n in needs[: limits.MOST_OCCURRENCES]),
        occurrences=tuple(
            Occurrence(n.event, n.start, n.cost_ns, expected=n.before, actual=n.shapes, step=n.step, period=n.period)
            for n in needs[: limits.MOST_OCCURRENCES]
        ),
        more=max(len(needs) - limits.MOST_OCCURRENCES, 0),
        places=tuple((x.file, x.line, x.function) for x in group[1:51]),
    )


def _advice(line: _Line, ragged: bool, growing: bool, code: str) -> str:
    at = f"{plain(short_file(line.file), 60)}:{line.line}"
    if ragged:
        return (
            "One batch has another size (a smaller last batch, most often): give the DataLoader drop_last=True, or pad "
            f"the batch to the full size before {at}."
        )
    if growing and ".generate(" in code and "cache_implementation" not in code:
        return (
            f"The key-value cache grows with every token: give generate at {at} "
            'cache_implementation="static", which allocates it once at its full size.'
        )
    if growing:
        return (
            f"What {at} works on grows from call to call (a key-value cache, or a sequence that is put together piece "
            "by piece): allocate it once at its full size and write into it, as a static cache does, or pad to a few "
            "bucket sizes."
        )
    return f"Pad the inputs of {at} to a fixed size, or to a few bucket sizes, so that the artifacts are found again."


def _number_advice(line: _Line) -> str:
    at = f"{plain(short_file(line.file), 60)}:{line.line}"
    return (
        f"A whole number that changes is part of the operator at {at}, which is compiled for each: keep it in a tensor "
        "on the device and count there (position += 1, say), or pass a float where that will do."
    )


def _number(line: _Line) -> str:
    """The whole number that differs where the shapes do not, in order of time; "" where shapes do."""
    needs = [n for n in line.needs if n.name == line.needs[-1].name]
    words = [n.shapes.split() for n in needs[:64]]
    if len(words) < 2 or len({len(w) for w in words}) != 1:
        return ""
    differing = [position for position, found in enumerate(zip(*words, strict=True)) if len(set(found)) > 1]
    if len(differing) != 1:
        return ""
    values = [w[differing[0]] for w in words]
    if not all(re.fullmatch(r"-?\d{1,19}", value) for value in values):
        return ""
    return " → ".join(values if len(values) <= 6 else [*values[:4], "…", values[-1]])


def _sizes(line: _Line) -> tuple[str, bool]:
    """The size that differs, in order of time, and whether it grows: of the operator that changed most often."""
    by_name: dict[str, list[Need]] = {}
    for need in line.needs:
        by_name.setdefault(need.name, []).append(need)
    for needs in sorted(by_name.values(), key=len, reverse=True):
        first = needs[0]
        before, after = _flat(first.before), _flat(first.shapes)
        if len(before) != len(after):
            continue
        position = next((i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b), -1)
        if position < 0:
            continue
        flat = [_flat(n.shapes) for n in needs]
        values = list(dict.fromkeys([before[position], *(f[position] for f in flat if len(f) == len(after))]))
        growing = len(values) >= 3 and all(a < b for a, b in pairwise(values))
        shown = [str(v) for v in values]
        return " → ".join(shown if len(shown) <= 6 else [*shown[:4], "…", shown[-1]]), growing
    shapes = _shapes(line.needs[-1].shapes)
    return ("×".join(map(str, shapes[0])) if shapes and shapes[0] else ""), False


def _shapes(text: str) -> list[list[int]]:
    """The shapes of a signature: JSON as in the column, or whatever lists of numbers a text holds."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _lists_in(text)
    found: list[list[int]] = []
    _collect(value, found, 0)
    return found[:64]


def _collect(value: Any, found: list[list[int]], depth: int) -> None:
    if isinstance(value, list) and depth < 6:
        if value and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            found.append(value)
        else:
            for v in value[:64]:
                _collect(v, found, depth + 1)
    elif isinstance(value, dict) and depth < 6:
        for v in list(value.values())[:64]:
            _collect(v, found, depth + 1)


def _lists_in(text: str) -> list[list[int]]:
    return [
        [int(n) for n in re.findall(r"\d{1,12}", part)]
        for part in re.findall(r"[\[(]([\d,x× ]{1,200})[\])]", text[:4_000])[:64]
    ]


def _first_size(sizes: str) -> str:
    return sizes.split(" → ")[0] if " → " in sizes else ""


def _last_size(sizes: str) -> str:
    return sizes.split(" → ")[-1] if " → " in sizes else sizes
