"""The exact counts of a trace: of each steady step, and of the run where there are no steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.activity import IS_COLLECTIVE_WAIT
from neuron_explorer.analysis.compile_events import Row, compile_events
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.memory_blocks import blocks
from neuron_explorer.analysis.memory_state import peak, window
from neuron_explorer.analysis.place import Place, Places
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import Selection, kinds_sql, select
from neuron_explorer.analysis.work import step_work
from neuron_explorer.check.groups import GROUPS, Group
from neuron_explorer.check.stable import (
    MOST_FIELD,
    compiled_function,
    stable_function,
    stable_operator,
    stable_path,
    stable_text,
)

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_KEYS: Final = 20_000
"""Keys of one group; a program with more is not one that a baseline can be read for."""

RANKS: Final = "ranks"
"""Of the environment: how many ranks the counts are the sum of; not there for one process."""

Key = tuple[str, ...]
_OPERATORS: Final = ("op", "launch", "copy", "sync", "collective", "fallback")


@dataclass(frozen=True)
class Count:
    """How often: the least and the most of any step (or recording). Equal unless it varies."""

    low: int
    high: int

    @property
    def steady(self) -> bool:
        """Whether every step, or recording, had the same."""
        return self.low == self.high

    def joined(self, other: Count) -> Count:
        """Both together."""
        return Count(min(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True)
class Counted:
    """The counts of one group. ``observed`` is False where the recording could not tell, ``reason`` says why.

    ``places``: file and line to show for a key, where it has one. ``left_out``: keys beyond the bound.
    """

    group: Group
    counts: Mapping[Key, Count]
    observed: bool = True
    reason: str = ""
    places: Mapping[Key, tuple[str, int]] = field(default_factory=dict)
    left_out: int = 0


@dataclass(frozen=True)
class Counts:
    """All of a trace. ``steps``: steady steps, 0 where the counts are those of the whole run.

    ``environment``: what counts and times depend on. ``notes``: in words, what is coarser than usual.
    """

    groups: Mapping[str, Counted]
    steps: int
    rule: str
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()


def counts_of(trace: Trace) -> Counts:
    """Count. Never raises for what a trace lacks: a group that could not be seen says so."""
    selection = select(trace)
    places = Places(trace)
    found = {
        "launches": _launches(trace, selection),
        "operators": _operators(trace, selection),
        "lines": _by_place(trace, selection, places, "lines", "top_level AND kind IN ('op', 'launch', 'fallback', "
                           "'copy', 'sync', 'collective')"),
        **_compilation(trace, places),
        "fallbacks": _fallbacks(trace, selection),
        "copies": _by_place(trace, selection, places, "copies", "kind = 'copy'",
                            _in_detail("direction")),
        "synchronisations": _by_place(trace, selection, places, "synchronisations",
                                      f"kind = 'sync' AND NOT {IS_COLLECTIVE_WAIT}"),
        "collectives": _collectives(trace, selection),
        "work": _work(trace, selection),
        "peak_memory": _peak_memory(trace),
        "setup": _setup(trace, selection),
    }  # fmt: skip
    rule = trace.metadata.get("steps")
    rule_text = rule.get("rule_text") if isinstance(rule, dict) else ""
    notes = []
    if not selection.steps:
        notes.append("no step is steady: counts are those of the whole run, which change with its length")
    bare = places.without_source(f for f, _ in _shown(found.values()) if f)
    if bare:
        notes.append(f"without source text, lines of a function are one place: {', '.join(bare[:3])}")
    return Counts(
        {name: _checked(trace, counted) for name, counted in found.items()},
        selection.steps if selection.period == "steady" else 0, str(rule_text or ""), environment_of(trace.metadata),
        tuple(notes),
    )  # fmt: skip


def _shown(groups: Iterable[Counted]) -> Iterable[tuple[str, int]]:
    return (place for counted in groups for place in counted.places.values())


def _checked(trace: Trace, counted: Counted) -> Counted:
    """Not observed where the recording says that it could not look."""
    capability = counted.group.capability
    if not capability or not counted.observed:
        return counted
    known = trace.metadata.get("capabilities")
    entry = known.get(capability) if isinstance(known, dict) else None
    if isinstance(entry, dict) and entry.get("observed"):
        return counted
    reason = entry.get("reason") if isinstance(entry, dict) else ""
    return Counted(counted.group, {}, False, plain(str(reason or "the recording does not say that it looked"), 300))


def environment_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What operators and times depend on: torch, Python, the device, the CPU and its threads."""
    versions = metadata.get("versions")
    versions = versions if isinstance(versions, dict) else {}
    device = metadata.get("device")
    device = device if isinstance(device, dict) else {}
    kind = str(device.get("type") or "")
    machine = metadata.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    given = {
        "torch": versions.get("torch"), "python": versions.get("python"),
        "device": f"{kind} (emulated)" if device.get("emulated") else kind, "chip": device.get("name"),
        "cpu": machine.get("cpu"), "threads": machine.get("threads"), "driver": device.get("driver"),
        "sdk": versions.get("neuron"),
    }  # fmt: skip
    return {key: plain(str(value), 100) for key, value in given.items() if value not in (None, "")}


def _steps_of(selection: Selection) -> tuple[int, ...]:
    return selection.step_numbers if selection.period == "steady" else ()


def _ranges(rows: Iterable[tuple[Key, int, int]], steps: tuple[int, ...]) -> dict[Key, Count]:
    """(key, step, n) as counts: least and most over the steps, where a step without the key has none of it."""
    if not steps:
        sums: dict[Key, int] = {}
        for key, _, n in rows:
            sums[key] = sums.get(key, 0) + n
        return {key: Count(n, n) for key, n in sums.items()}
    by_step: dict[Key, dict[int, int]] = {}
    for key, step, n in rows:
        entry = by_step.setdefault(key, {})
        entry[step] = entry.get(step, 0) + n
    return {
        key: Count(0 if len(entry) < len(steps) else min(entry.values()), max(entry.values()))
        for key, entry in by_step.items()
    }


def _counted(name: str, rows: list[tuple[Key, int, int]], selection: Selection) -> Counted:
    counts = _ranges(rows, _steps_of(selection))
    left = max(0, len(counts) - MOST_KEYS)
    return Counted(GROUPS[name], dict(sorted(counts.items())[:MOST_KEYS]), left_out=left)


_FIRST_PLACE: Final = "min(id) AS id, arg_min(file, id) AS file, arg_min(line, id) AS line"


def _in_detail(key: str) -> str:
    """SQL: a value of the detail as text, "" where there is none."""
    return f"coalesce(json_extract_string(CASE WHEN json_valid(detail) THEN detail END, '$.{key}'), '')"


def _field(value: Any) -> str:
    return str(value or "")[:MOST_FIELD]


def _of(place: Place) -> Key:
    return stable_path(place.path), stable_function(place.function), place.text, str(place.occurrence)


def _launches(trace: Trace, selection: Selection) -> Counted:
    rows = trace.sql_arrow(
        f"SELECT step, count(*) AS n FROM events WHERE {selection.where} AND top_level "
        f"AND {kinds_sql(_OPERATORS)} GROUP BY step"
    ).to_pylist()
    return _counted("launches", [(("total",), r["step"], r["n"]) for r in rows], selection)


def _operators(trace: Trace, selection: Selection) -> Counted:
    rows = trace.sql_arrow(
        f"SELECT name, dtypes, shapes, step, count(*) AS n, {_FIRST_PLACE} FROM events WHERE {selection.where} "
        f"AND top_level AND {kinds_sql(_OPERATORS)} GROUP BY name, dtypes, shapes, step LIMIT {40 * MOST_KEYS}"
    ).to_pylist()
    return _named("operators", rows, selection, lambda r: (_field(r["dtypes"]), _field(r["shapes"])))


def _named(
    name: str, rows: list[dict[str, Any]], selection: Selection, more: Callable[[dict[str, Any]], Key] = lambda r: ()
) -> Counted:
    """Counts by the operator's name; shown at the first place that calls it."""
    found: list[tuple[Key, int, int]] = []
    first: dict[Key, tuple[int, str, int]] = {}
    for r in rows:
        key = (stable_operator(str(r["name"] or "")), *more(r))
        found.append((key, r["step"], r["n"]))
        if r["file"]:
            here = (r["id"], r["file"], r["line"])
            first[key] = min(first.get(key, here), here)
    counted = _counted(name, found, selection)
    return replace(counted, places={key: (file, line) for key, (_, file, line) in first.items()})


def _by_place(
    trace: Trace, selection: Selection, places: Places, name: str, condition: str, extra: str = ""
) -> Counted:
    more = f", {extra} AS extra" if extra else ""
    rows = trace.sql_arrow(
        f"SELECT file, line, function{more}, step, count(*) AS n FROM events WHERE {selection.where} AND {condition} "
        f"GROUP BY ALL LIMIT {40 * MOST_KEYS}"
    ).to_pylist()
    found, shown = [], {}
    for row in rows:
        place = places.of(row["file"], row["line"], row["function"])
        key = _of(place) + ((_field(row["extra"]),) if extra else ())
        found.append((key, row["step"], row["n"]))
        shown.setdefault(key, places.line(place))
    counted = _counted(name, found, selection)
    return Counted(counted.group, counted.counts, places=shown, left_out=counted.left_out)


def _fallbacks(trace: Trace, selection: Selection) -> Counted:
    rows = trace.sql_arrow(
        f"SELECT name, step, count(*) AS n, {_FIRST_PLACE} FROM events "
        f"WHERE {selection.where} AND kind = 'fallback' GROUP BY name, step LIMIT {40 * MOST_KEYS}"
    ).to_pylist()
    return _named("fallbacks", rows, selection)


def _collectives(trace: Trace, selection: Selection) -> Counted:
    rows = trace.sql_arrow(
        f"SELECT name, {_in_detail('bytes')} AS bytes, step, count(*) AS n, {_FIRST_PLACE} "
        f"FROM events WHERE {selection.where} AND kind = 'collective' AND correlation = -1 "
        f"GROUP BY 1, 2, 3 LIMIT {40 * MOST_KEYS}"
    ).to_pylist()
    return _named("collectives", rows, selection, lambda r: (_field(r["bytes"]),))


def _work(trace: Trace, selection: Selection) -> Counted:
    work = step_work(trace, selection=selection)
    moved = sum((c.cost.bytes_read() + c.cost.bytes_written()) * c.calls for c in work.counted)
    steps = max(work.steps, 1)
    # A mean: whole where every step does the same, which the counts of operators tell.
    counts = {("FLOPs",): Count(work.flops // steps, -(-work.flops // steps)),
              ("bytes",): Count(moved // steps, -(-moved // steps))}  # fmt: skip
    return Counted(GROUPS["work"], counts)


def _setup(trace: Trace, selection: Selection) -> Counted:
    group = GROUPS["setup"]
    steps = _steps_of(selection)
    if not steps:
        return Counted(group, {})
    rows = trace.sql_arrow(
        # Not the first steady one: with a warm cache fewer steps compile.
        "SELECT min(\"start\") AS first FROM events WHERE kind = 'step' AND period <> 'warmup'"
    ).to_pylist()
    first = rows[0]["first"] if rows and rows[0]["first"] is not None else 0
    lanes = ", ".join(str(int(lane)) for lane in selection.host_lanes) or "NULL"
    number = trace.sql_arrow(
        f'SELECT count(*) AS n FROM events WHERE lane IN ({lanes}) AND top_level AND "start" < ? '
        f"AND {kinds_sql(_OPERATORS)}",
        (int(first),),
    ).to_pylist()[0]["n"]
    return Counted(group, {("launches",): Count(number, number)})


def _compilation(trace: Trace, places: Places) -> dict[str, Counted]:
    events = compile_events(trace)
    if not events.observed:
        return {name: Counted(GROUPS[name], {}, False, plain(events.reason, 300))
                for name in ("recompiles", "graph_breaks", "compilations")}  # fmt: skip
    again: dict[Key, int] = {}
    shown: dict[Key, tuple[str, int]] = {}
    for row in events.recompiles:
        first = next(iter(row.entries("reasons")), {})
        place = _place(row, places)
        key = (*_of(place), _field(first.get("cause") or "no_reason"), stable_text(str(first.get("source") or "")))
        again[key] = again.get(key, 0) + 1
        shown.setdefault(key, places.line(place))
    breaks: dict[Key, set[str]] = {}
    for row in events.breaks:
        place = places.of(row.file, row.line, row.function)
        key = (*_of(place), stable_text(row.text("type") or row.text("reason") or row.name))
        breaks.setdefault(key, set()).add(row.compile_id)
        shown.setdefault(key, places.line(place))
    compiled: dict[Key, set[tuple[int, str]]] = {}
    for row in events.compiles:
        place = places.of(row.file, row.line, row.function)
        function = (stable_path(place.path), compiled_function(place.function))
        compiled.setdefault(function, set()).add((row.process, row.compile_id or str(row.id)))
        shown.setdefault(function, (row.file, row.line))
    return {
        "recompiles": Counted(GROUPS["recompiles"], {k: Count(n, n) for k, n in sorted(again.items())}, places=shown),
        "graph_breaks": Counted(GROUPS["graph_breaks"], {k: Count(1, 1) for k in sorted(breaks)}, places=shown),
        "compilations": Counted(
            GROUPS["compilations"], {k: Count(len(v), len(v)) for k, v in sorted(compiled.items())}, places=shown
        ),
    }


def _place(row: Row, places: Places) -> Place:
    """Where the function that was compiled again begins: its first line moves with it and keeps its text."""
    return places.of(row.file, row.line, row.function)


def _peak_memory(trace: Trace) -> Counted:
    """The most bytes that were allocated at once on each device, over the whole run."""
    group = GROUPS["peak_memory"]
    unseen = _checked(trace, Counted(group, {}))
    if not unseen.observed:
        return unseen
    found = blocks(trace)
    if not found.owners:
        return Counted(group, {}, False, "allocations are not recorded")
    whole = window(trace, Filter(period="all"))
    highest: dict[Key, int] = {}
    for number, owner in enumerate(found.owners):
        key = (owner.device,)
        highest[key] = max(highest.get(key, 0), peak(trace, number, whole).bytes)
    return Counted(group, {key: Count(n, n) for key, n in sorted(highest.items())})
