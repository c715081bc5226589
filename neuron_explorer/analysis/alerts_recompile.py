"""Alerts for what was compiled again, and for functions that Dynamo gave up on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from neuron_explorer.analysis import alert_thresholds as limits
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert, Occurrence
from neuron_explorer.analysis.called_names import called_function, called_source, in_words, is_backward_graph
from neuron_explorer.analysis.compile_advice import Case, advice, limit_advice
from neuron_explorer.analysis.compile_events import CompileEvents, Row, resumed, shown_function
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.trace.compiles import CAUSES

_WORDS: Final = {
    "size": "{s} changed",
    "stride": "the memory layout of {s} changed",
    "dtype": "the dtype of {s} changed",
    "device": "the device of {s} changed",
    "requires_grad": "{s} began or ceased to require gradients",
    "object_identity": "{s} is another object",
    "python_value": "the Python value {s} changed",
    "global_value": "the global {s} changed",
    "module_state": "{s} changed",
    "grad_mode": "{s} changed",
    "no_reason": "Dynamo gave no reason",
    "other": "a reason that is not known here",
}
_NO_SOURCE: Final = {
    "size": "a size changed",
    "stride": "a memory layout changed",
    "dtype": "a dtype changed",
    "device": "a device changed",
    "requires_grad": "a tensor began or ceased to require gradients",
    "object_identity": "an object is another one",
    "python_value": "a Python value changed",
    "global_value": "a global changed",
    "module_state": "the state of a module changed",
    "grad_mode": "global state of torch changed",
}


def recompile_alerts(events: CompileEvents) -> list[Alert]:
    """One alert for each place and reason."""
    groups: dict[tuple[str, int, str, str, str], list[Row]] = {}
    for row in _once(events):
        key = (row.file, row.line, row.function or row.name, cause_of(row), row.text("source"))
        groups.setdefault(key, []).append(row)
    dropped: dict[tuple[str, int], int] = {}
    for row in events.dropped:
        dropped[row.file, row.line] = dropped.get((row.file, row.line), 0) + max(row.number("count"), 0)
    # Which reason those had whose reasons were not kept is not known: they go to the place's most frequent.
    largest: dict[tuple[str, int], list[Row]] = {}
    for rows in groups.values():
        place = (rows[0].file, rows[0].line)
        largest[place] = max(largest.get(place, []), rows, key=len)
    found = []
    for rows in groups.values():
        place = (rows[0].file, rows[0].line)
        found.append(_alert(events, rows, dropped.get(place, 0) if largest[place] is rows else 0))
    return found


def one_for_each_call(alerts: list[Alert]) -> list[Alert]:
    """A new size that a call passes on reaches all functions of a library that are compiled: one alert tells it."""
    calls: dict[Any, list[Alert]] = {}
    for alert in alerts:
        key: Any = id(alert)
        if alert.library and alert.cause == "size" and alert.caller_file:
            changes = frozenset((o.expected, o.actual) for o in alert.occurrences)
            key = alert.caller_file, alert.caller_line, alert.rank, alert.process, changes
        calls.setdefault(key, []).append(alert)
    return [_merged(sorted(same, key=lambda a: a.occurrences[0].start)) for same in calls.values()]


def _merged(same: list[Alert]) -> Alert:
    first, *others = same
    places = tuple(dict.fromkeys((a.file, a.line, a.function) for a in others))
    if not places:
        return first
    cost = sum(a.cost_ns for a in same)
    more = f" {q.plural(len(places), 'more library function')} had to be compiled again for it; in all "
    share = sum(a.share for a in same)
    return replace(
        first,
        severity=min((a.severity for a in same), key=limits.SEVERITIES.index),
        evidence=f"{first.evidence}{more}{q.duration(cost)}, {q.share(share)} of the run.",
        cost_ns=cost,
        share=share,
        places=places[:50],
    )


def cause_of(row: Row) -> str:
    """Its cause; ``other`` for one that is not known."""
    cause = row.text("cause")
    return cause if cause in CAUSES else "no_reason" if not cause else "other"


def _once(events: CompileEvents) -> list[Row]:
    """Attempts at one compilation count once; the last says how it ended."""
    kept: dict[int, Row] = {}
    others: list[Row] = []
    for row in events.recompiles:
        group = group_of(events, row)
        if group >= 0:
            kept[group] = row
        else:
            others.append(row)
    return sorted([*kept.values(), *others], key=lambda r: (r.start, r.id))


def group_of(events: CompileEvents, recompile: Row) -> int:
    """Position in ``events.groups`` of the compilation that a recompile row is about, -1 for none."""
    inner = events.of_recompile.get(recompile.id)
    return events.group_of.get(inner.id, -1) if inner else -1


def cost_of(events: CompileEvents, row: Row) -> int:
    """What a recompilation cost: itself, its other attempts, and the backward that was compiled for it."""
    group = group_of(events, row)
    same = [(r.start, r.start + r.cost) for r in (events.groups[group] if group >= 0 else ())]
    total, reached = 0, 0
    for start, stop in sorted([*same, (row.start, row.start + row.cost)]):
        total += max(stop - max(start, reached), 0)
        reached = max(reached, stop)
    return total


def _alert(events: CompileEvents, rows: list[Row], dropped: int) -> Alert:
    last = rows[-1]
    detail = events.of_recompile.get(last.id)
    cause, source = cause_of(last), last.text("source")
    occurrences = [_occurrence(events, r) for r in rows]
    cost = sum(o.cost_ns for o in occurrences)
    share = events.share(cost)
    count = len(rows) + dropped
    nth = max((r.number("nth") for r in rows), default=-1)
    limit = last.number("limit")
    backend = last.text("backend") or (detail.text("backend") if detail else "")
    left = limit - nth if limit > 0 and nth > 0 else -1
    # Code shared by many instances has a limit for each, so a number beyond it says nothing.
    severity = limits.severity(cost, share, count, left=left if left >= 0 else -1)
    two_ways = cause in ("module_state", "grad_mode", "requires_grad")
    two_ways |= cause == "size" and "1" in (last.text("expected"), last.text("actual"))
    if two_ways and count == 1:
        severity = "low" if cost < limits.HIGH_ONCE_NS else "medium"
    values = _values(rows)
    dynamic_tried = _is_condition(last.text("expected"))
    allowed = dynamic_allowed(events, backend)
    called = called_source(last)
    after = resumed(last.function) or resumed(last.name)
    case = Case(
        cause,
        called,
        last.text("expected"),
        found_value(last),
        last.number("dimension"),
        last.text("guard"),
        last.function or last.name,
        short_place(last.file, last.line),
        short_place(last.text("caller_file"), last.number("caller_line")),
        dynamic_allowed=allowed,
        dynamic_tried=dynamic_tried,
        values=values,
        dynamic_off=detail is not None and detail.text("dynamic").lower() == "false",
        late_once=count == 1 and cause == "size" and last.number("dimension") == 0 and _is_last_batch(events, last),
        count=count,
        after_break=after[1] if after else -1,
        of_backward=is_backward_graph(last),
    )
    function = called_function(last)
    what = _what(cause, called, last if count == 1 else None)
    times = "" if count == 1 else "twice " if count == 2 else f"{count:,} times "
    title = (
        f"{function} was compiled again {times}because {what}"
        if cause not in ("no_reason", "other")
        else (f"{function} was compiled again {times}".rstrip() + f": {what}")
    )
    alert = Alert(
        "recompile",
        severity,
        title,
        _evidence(rows, values, cost, share, nth, limit, events),
        advice(case),
        last.file,
        last.line,
        last.function or last.name,
        cause=cause,
        source=source,
        guard=last.text("guard"),
        expected=last.text("expected"),
        actual=found_value(last),
        dimension=last.number("dimension"),
        caller_file=last.text("caller_file"),
        caller_line=last.number("caller_line"),
        caller_function=last.text("caller_function"),
        cost_ns=cost,
        share=share,
        count=count,
        nth=nth,
        limit=limit,
        period=last.period,
        backend=backend,
        process=last.process,
        library=last.library,
        rank=last.rank,
        events=tuple(r.id for r in rows[: limits.MOST_OCCURRENCES]),
        occurrences=tuple(occurrences[: limits.MOST_OCCURRENCES]),
        more=max(count - limits.MOST_OCCURRENCES, 0),
        reasons=tuple(last.entries("reasons")[:64]),
    )
    return alert


def _what(cause: str, source: str, once: Row | None) -> str:
    shown = plain(in_words(source), 60)
    if cause == "size" and not source.endswith("]"):
        shown = f"the size of {shown}"
    words = (_WORDS if source else {**_WORDS, **_NO_SOURCE}).get(cause, _WORDS["other"])
    if cause == "python_value" and " " in source:
        words = "{s} changed"
    words = words.replace("{s}", shown)
    expected, actual = (once.text("expected"), found_value(once)) if once else ("", "")
    short = expected and actual and len(expected + actual) <= 40 and not _is_condition(expected)
    if short and words.endswith("changed"):
        words += f" from {plain(expected)} to {plain(actual)}"
    return words


def dynamic_allowed(events: CompileEvents, backend: str) -> bool:
    """Whether a dynamic dimension may be advised."""
    return backend != "neuron" and not events.on_neuron


def found_value(row: Row) -> str:
    """What was found, in the words of what was expected: a length is a number of items."""
    expected, actual = row.text("expected"), row.text("actual")
    if actual.isdecimal() and re.fullmatch(r"\d+ (?:item|dimension)s?", expected):
        unit = expected.split(" ")[1].rstrip("s")
        return f"{actual} {unit}" + ("" if actual == "1" else "s")
    return actual


def _is_condition(expected: str) -> bool:
    return any(sign in expected for sign in ("<", ">", "==", "!=", "%"))


def _is_last_batch(events: CompileEvents, row: Row) -> bool:
    """The smaller size came after calls with the full one: in a late step, or outside of steps."""
    expected, actual = row.text("expected"), row.text("actual")
    smaller = expected.isdecimal() and actual.isdecimal() and int(actual) < int(expected)
    return smaller and (row.step < 0 or row.step >= limits.LATE_STEP)


def _occurrence(events: CompileEvents, row: Row) -> Occurrence:
    return Occurrence(
        row.id,
        row.start,
        cost_of(events, row),
        row.compile_id,
        row.text("expected"),
        found_value(row),
        row.number("nth"),
        row.step,
        row.period,
        row.text("caller_file"),
        row.number("caller_line"),
        row.text("caller_function"),
    )


def _values(rows: Iterable[Row]) -> tuple[str, ...]:
    """What was compiled for, oldest first, without repetitions."""
    seen = dict.fromkeys(value for row in rows for value in (row.text("expected"), found_value(row)))
    return tuple(value for value in seen if value and not _is_condition(value))


def _evidence(
    rows: list[Row], values: tuple[str, ...], cost: int, share: float, nth: int, limit: int, events: CompileEvents
) -> str:
    last = rows[-1]
    expected, actual = last.text("expected"), found_value(last)
    parts = []
    if cause_of(last) == "other" and last.text("guard"):
        parts.append(f"Dynamo says: {plain(last.text('guard'), 500)}")
    if len(rows) > 1 and len(values) > 2:
        shown = [plain(v, 24) for v in values]
        parts.append(" → ".join(shown if len(shown) <= 6 else [*shown[:4], "…", shown[-1]]))
    elif expected or actual:
        wanted = f"{plain(expected, 80)} →" if expected else "found:"
        parts.append(f"{wanted} {plain(actual, 80) or 'not observed'}")
    caller = short_place(last.text("caller_file"), last.number("caller_line"))
    if caller:
        parts.append(f"called at {caller}")
    parts.append(f"{q.duration(cost)} of compiling" + (f", {q.share(share)} of the run" if events.duration_ns else ""))
    processes = len({(r.rank, r.process) for r in rows})
    if processes > 1:
        parts.append(f"in {processes} processes")
    if nth > 0:
        parts.append(f"compilation {nth} of this function" + (f", the limit is {limit}" if limit > 0 else ""))
    return "; ".join(parts) + "."


def short_place(file: str, line: int) -> str:
    """``model.py:12``, safe to print; "" without a file."""
    return f"{plain(short_file(file), 60)}:{line}" if file else ""


def limit_alerts(events: CompileEvents, recompiles: list[Alert]) -> list[Alert]:
    """One alert for each function that Dynamo gave up on."""
    groups: dict[tuple[str, int, str, str], list[Row]] = {}
    for row in events.limits_reached:
        groups.setdefault((row.file, row.line, row.function, row.text("kind")), []).append(row)
    found = []
    for (file, line, function, kind), rows in groups.items():
        last = rows[-1]
        limit = last.number("limit")
        reasons = last.entries("reasons")
        first: Mapping[str, Any] = reasons[0] if reasons else {}
        same = [a for a in recompiles if (a.file, a.line) == (file, line)]
        worst = max(same, key=lambda a: (a.count, a.cost_ns), default=None)
        caller_file, caller_line, caller_function = last.caller()
        cause = str(first.get("cause") or (worst.cause if worst else ""))
        source = str(first.get("source") or (worst.source if worst else ""))
        case = Case(
            cause if cause in CAUSES else "",
            source,
            str(first.get("expected") or (worst.expected if worst else "")),
            str(first.get("actual") or ""),
            worst.dimension if worst else -1,
            str(first.get("guard") or ""),
            function,
            short_place(file, line),
            short_place(caller_file, caller_line),
            dynamic_allowed=dynamic_allowed(events, worst.backend if worst else ""),
            values=_seen(worst),
            dynamic_off=any(
                r.text("dynamic").lower() == "false" for r in events.compiles if (r.file, r.line) == (file, line)
            ),
        )
        name = shown_function(function) or "a function"
        what = "it was compiled too often"
        if kind == "accumulated_recompile_limit":
            what += " in sum (the accumulated limit)"
        cost = sum(a.cost_ns for a in same)
        evidence = f"{limit} compilations were allowed; f" if limit > 0 else "F"
        evidence += "rom here on it runs eagerly, or raises with fullgraph=True"
        if same:
            evidence += f"; {q.duration(cost)} went into compiling it again"
        found.append(
            Alert(
                "recompile_limit",
                "high",
                f"Dynamo gave up on {name}: {what}",
                evidence + ".",
                limit_advice(case, limit),
                file,
                line,
                function,
                cause=case.cause,
                source=source,
                guard=case.guard,
                expected=case.expected,
                actual=case.actual,
                caller_file=caller_file,
                caller_line=caller_line,
                caller_function=caller_function,
                count=len(rows),
                nth=limit,
                limit=limit,
                period=last.period,
                process=last.process,
                library=last.library,
                rank=last.rank,
                events=tuple(r.id for r in rows[: limits.MOST_OCCURRENCES]),
                occurrences=tuple(
                    Occurrence(r.id, r.start, 0, step=r.step, period=r.period) for r in rows[: limits.MOST_OCCURRENCES]
                ),
                more=max(len(rows) - limits.MOST_OCCURRENCES, 0),
                reasons=tuple(reasons[:64]),
            )
        )
    return found


def _seen(alert: Alert | None) -> tuple[str, ...]:
    values = (v for o in (alert.occurrences if alert else ()) for v in (o.expected, o.actual))
    return tuple(dict.fromkeys(v for v in values if v and not _is_condition(v)))


def merged_limits(recompiles: list[Alert], reached: list[Alert]) -> list[Alert]:
    """Recompilations of a function that was given up on are part of the same trouble: at least as severe."""
    given_up = {(a.file, a.line) for a in reached}
    return [replace(a, severity="high") if (a.file, a.line) in given_up and a.count > 1 else a for a in recompiles]
