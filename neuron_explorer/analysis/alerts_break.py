"""Alerts for graph breaks, by the line that broke the graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis import alert_thresholds as limits
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert, Occurrence
from neuron_explorer.analysis.alerts_recompile import short_place
from neuron_explorer.analysis.compile_advice import break_advice
from neuron_explorer.analysis.compile_events import CompileEvents, Row, place_in, resumed, shown_function, user_function
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.source_line import code_at

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def break_alerts(trace: Trace, events: CompileEvents) -> list[Alert]:
    """One alert for each line and kind of break.

    Its cost is what the break led to: the compilations of the rest of the function, and their
    launches a run. What the time would have been without it is not known.
    """
    groups: dict[tuple[str, int, str, str], list[Row]] = {}
    failed = [row for row in events.compiles if row.text("outcome") == "failed"]
    for row in events.breaks:
        # What failed has an alert of its own; torch's own breaks (in its optimizers) are as they should be.
        own = row.library and row.file.startswith("torch/") and "graph_break()" in row.text("type")
        if own or any(
            f.process == row.process and f.thread == row.thread and f.start <= row.start <= f.start + f.cost
            for f in failed
        ):
            continue
        groups.setdefault((row.file, row.line, row.function, row.text("type") or row.name), []).append(row)
    if not groups:
        return []
    resumptions = _resumed(events)
    launches = _launches(trace)
    return [
        _alert(events, rows, resumptions, launches, code_at(trace, rows[-1].file, rows[-1].line))
        for rows in groups.values()
    ]


def _resumed(events: CompileEvents) -> dict[tuple[str, str, int], list[Row]]:
    """Compilations of what follows a break, by file, function and the line after it."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in events.compiles:
        function = resumed(row.function) or resumed(row.name)
        if function:
            found.setdefault((row.file, *function), []).append(row)
    return found


def _launches(trace: Trace) -> dict[tuple[int, str], int]:
    table = trace.sql_arrow(
        "SELECT process, compile_id, count(*) AS n FROM events "
        "WHERE kind = 'launch' AND compile_id IS NOT NULL GROUP BY ALL"
    ).to_pylist()
    return {(r["process"], r["compile_id"]): r["n"] for r in table}


def _alert(
    events: CompileEvents,
    rows: list[Row],
    resumptions: Mapping[tuple[str, str, int], list[Row]],
    launches: Mapping[tuple[int, str], int],
    code: str,
) -> Alert:
    last = rows[-1]
    own = _last_name(last.function)
    after: list[Row] = []
    for (file, function, line), found in resumptions.items():
        if file == last.file and line == last.line and (not own or _last_name(function) == own):
            after += found
    cost = sum(r.cost for r in after)
    share = events.share(cost)
    count = sum(max(r.number("count"), 1) for r in rows)
    runs = sum(launches.get(key, 0) for key in {(r.process, r.compile_id) for r in after})
    reason = last.text("reason") or last.text("explanation") or last.name
    first_line = next((x.strip() for x in reason.splitlines() if x.strip()), "")
    kind = last.text("type") or last.name
    caller = ("", -1, "")
    for each in last.entries("callers"):
        place = place_in(each)
        if place[0] and (place[0] != last.file or _last_name(place[2]) != own):
            caller = place
            break
    severity = limits.severity(cost, share, 1, least="medium" if count >= limits.BREAK_COUNT else "low")
    function = shown_function(last.function) or "a function"
    title = f"The graph breaks in {function}: {_headline(kind or first_line, last)}"
    parts = [f"{q.plural(len(after), 'more compilation')} for what follows, {q.duration(cost)}"] if after else []
    if runs:
        parts.append(f"{q.plural(runs, 'more launch', 'more launches')}")
    if count > 1:
        parts.append(f"met in {count:,} compilations")
    explanation = plain(_sentence(last.text("explanation")), 200).rstrip(".")
    if explanation and explanation not in title:
        parts.insert(0, explanation)
    where = f"{plain(short_file(last.file), 60)}:{last.line}" if last.file else ""
    return Alert(
        "graph_break",
        severity,
        title,
        ("; ".join(parts) or "Nothing more was compiled because of it") + ".",
        break_advice(f"{reason} {last.text('explanation')}", kind, code, where, last.texts("hints"))
        + (_LIBRARY.format(call=short_place(caller[0], caller[1])) if last.library and caller[0] else ""),
        last.file,
        last.line,
        user_function(last.function),
        cause=kind,
        guard=reason,
        caller_file=caller[0],
        caller_line=caller[1],
        caller_function=caller[2],
        cost_ns=cost,
        share=share,
        count=count,
        period=last.period,
        backend=next((r.text("backend") for r in after if r.text("backend")), ""),
        process=last.process,
        library=last.library,
        rank=last.rank,
        events=tuple(r.id for r in rows[: limits.MOST_OCCURRENCES]),
        occurrences=tuple(
            Occurrence(r.id, r.start, 0, r.compile_id, step=r.step, period=r.period)
            for r in rows[: limits.MOST_OCCURRENCES]
        ),
        more=max(len(rows) - limits.MOST_OCCURRENCES, 0),
    )


_LIBRARY: Final = (
    " The line is a library's, reached from {call}: where it cannot be changed, keep that call out of the compiled "
    "function."
)


def _last_name(function: str) -> str:
    """``forward`` of ``Model.forward``, whatever of it was resumed; a lambda has another name in bytecode."""
    return user_function(function).rsplit(".", 1)[-1].strip("<>_")


def _headline(kind: str, row: Row) -> str:
    """Torch's name of the break without the settings it mentions, with the function that it is about."""
    text = plain(kind.split(" with capture_")[0].split("\n")[0].strip().rstrip("."), 90)
    named = re.search(r"(?:operator|function|method|call to) `([\w.]{1,60})`", row.text("explanation"))
    if named and named[1] not in text:
        text += f" ({plain(named[1])})"
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _sentence(text: str) -> str:
    """The first sentence."""
    first = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(text.split()))
    end = first.find(". ")
    while end >= 0 and first[:end].endswith(("e.g", "i.e", "etc")):
        end = first.find(". ", end + 1)
    return first[: end + 1] if end > 0 else first
