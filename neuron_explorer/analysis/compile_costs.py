"""What compiling costs: in all, per function, per part, by cause, and what a warm cache would save.

Compilations run on the host, several threads at once now and then. Sums of durations count each
of them; ``wall_ns`` is the time in which at least one ran.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alerts_recompile import cause_of, group_of
from neuron_explorer.analysis.compile_events import (
    IS_PHASE,
    CompileEvents,
    Row,
    compile_events,
    shown_function,
    user_function,
)
from neuron_explorer.analysis.compile_filter import rows_sql, within
from neuron_explorer.analysis.filters import NO_FILTER, Filter
from neuron_explorer.analysis.scan import known_kinds
from neuron_explorer.trace.compiles import PHASES

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_ROWS: Final = 500

CACHED_PHASES: Final = ("lowering", "code_generation", "kernel_compile", "autotuning")
"""Parts that a hit in a compiler cache skips. Tracing, guards and AOT run in every process."""

FIRST: Final = "first"
"""The cause of what was compiled for the first time."""

ANEW: Final = "anew"
"""Of what was compiled again from nothing: after ``torch._dynamo.reset()``."""

NOT_KEPT: Final = "not kept"
"""Of what was compiled again, where the recording holds no reason any more."""


_LABELS: Final = {
    FIRST: "the first time", ANEW: "anew after a reset", NOT_KEPT: "again, reason not kept",
}  # fmt: skip


def cause_label(cause: str) -> str:
    """A cause of ``CauseCost`` in words."""
    return _LABELS.get(cause, cause.replace("_", " "))


@dataclass(frozen=True)
class FunctionCost:
    """A function's compilations. ``recompiles``: those that were not the first; times in ns.

    ``file`` and ``line`` are of the function, of the user's call where the function is a library's.
    """

    file: str
    line: int
    function: str
    compiles: int
    recompiles: int
    failed: int
    cost_ns: int
    share: float
    largest_ns: int
    graph_ops: int
    backend: str
    events: tuple[int, ...]


@dataclass(frozen=True)
class PhaseCost:
    """A part's own time (without the parts inside it), summed. ``meaning``: what the part does.

    Parts on helper threads are left out: the compilation's own thread waits for them meanwhile.
    """

    name: str
    label: str
    meaning: str
    self_ns: int
    count: int
    share: float


@dataclass(frozen=True)
class CauseCost:
    """Compilations for one cause; ``first``: nothing was compiled there before."""

    cause: str
    count: int
    cost_ns: int
    share: float


@dataclass(frozen=True)
class CompileCosts:
    """The cost of compiling in a run. Times in ns, shares are of compiling unless said otherwise.

    ``share_of_run``: ``wall_ns`` as a part of the run. ``cached_ns``: what was spent in parts that a
    warm cache skips, where the cache missed; None where the trace does not tell. ``cold_start_ns``:
    what a process pays before the first call of everything is compiled: first compilations, without
    recompilations. ``assumption``: what those two rest on, in words. ``eager``: artifacts of eager
    operators, and ``eager_ns`` their time. ``cache``: results by cache.
    """

    observed: bool
    reason: str
    compiles: int
    recompiles: int
    failed: int
    restarted: int
    cost_ns: int
    wall_ns: int
    share_of_run: float
    functions: tuple[FunctionCost, ...]
    total_functions: int
    phases: tuple[PhaseCost, ...]
    causes: tuple[CauseCost, ...]
    cache: dict[str, dict[str, int]]
    cached_ns: int | None
    cold_start_ns: int
    recompile_ns: int
    assumption: str
    eager: int
    eager_ns: int


def compile_costs(
    trace: Trace, *, events: CompileEvents | None = None, chosen: Filter = NO_FILTER
) -> CompileCosts:  # fmt: skip
    """The costs. ``events``: read already. ``chosen``: of its steps, rank and process alone."""
    found = within(events or compile_events(trace), chosen)
    rows = _outermost(found.compiles)
    total = sum(r.cost for r in rows)
    wall = union_ns((r.start, r.start + r.cost) for r in [*found.compiles, *found.eager])
    why = _causes_of(found)
    causes: dict[str, list[int]] = {}
    for number in {found.group_of[r.id] for r in rows}:
        causes.setdefault(why[number], [0, 0])[0] += 1
    for row in rows:
        causes[why[found.group_of[row.id]]][1] += row.cost
    recompile_ns = sum(ns for cause, (_, ns) in causes.items() if cause != FIRST)
    functions = _functions(found, rows, why, total)
    sums = _sums(trace, rows_sql(chosen))
    phases = _phases(sums, total)
    caches = _caches(found.compiles)
    cached = _cached(sums, found.compiles)
    return CompileCosts(
        observed=found.observed,
        reason=found.reason,
        compiles=sum(count for count, _ in causes.values()),
        recompiles=sum(count for cause, (count, _) in causes.items() if cause != FIRST),
        failed=sum(r.text("outcome") == "failed" for r in found.compiles),
        restarted=sum(r.text("outcome") == "restarted" for r in found.compiles),
        cost_ns=total,
        wall_ns=wall,
        share_of_run=found.share(wall),
        functions=functions[:MOST_ROWS],
        total_functions=len(functions),
        phases=phases,
        causes=tuple(
            CauseCost(cause, count, ns, ns / total if total else 0.0)
            for cause, (count, ns) in sorted(causes.items(), key=lambda item: (-item[1][1], item[0]))
        ),
        cache=caches,
        cached_ns=cached,
        cold_start_ns=total - recompile_ns + sum(r.cost for r in found.eager),
        recompile_ns=recompile_ns,
        assumption=_assumption(found, cached),
        eager=len(found.eager),
        eager_ns=sum(r.cost for r in found.eager),
    )


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of what the intervals cover together."""
    total, reached = 0, None
    for start, stop in sorted(intervals):
        if reached is None or start > reached:
            total += stop - start
            reached = stop
        elif stop > reached:
            total += stop - reached
            reached = stop
    return total


def _outermost(rows: Iterable[Row]) -> list[Row]:
    """Compilations that are not inside another of the same thread: those inside are part of its cost."""
    kept: list[Row] = []
    reached: dict[tuple[int, int], int] = {}
    for row in rows:
        key = (row.process, row.thread)
        if row.cost and row.start + row.cost <= reached.get(key, -1):
            continue
        reached[key] = max(reached.get(key, -1), row.start + row.cost)
        kept.append(row)
    return kept


def _causes_of(events: CompileEvents) -> list[str]:
    """Why each of ``events.groups`` was compiled."""
    told = {group_of(events, r): cause_of(r) for r in events.recompiles}
    found = []
    for number, group in enumerate(events.groups):
        first = group[0]
        if number in told:
            found.append(told[number])
        elif first.number("nth") <= 1 or first.text("trigger") not in ("", "forward"):
            found.append(FIRST)
        else:
            found.append(ANEW if first.compile_id.endswith("/0") else NOT_KEPT)
    return found


def _functions(events: CompileEvents, rows: Iterable[Row], why: list[str], total: int) -> tuple[FunctionCost, ...]:
    groups: dict[tuple[str, int, str], list[Row]] = {}
    began: dict[tuple[str, str], set[tuple[int, str]]] = {}
    for row in rows:
        name = row.function or row.name
        function = user_function(name)
        if row.library and row.caller()[0]:
            groups.setdefault((*row.caller()[:2], shown_function(name)), []).append(row)
            continue
        # What goes on after a graph break is part of the function that broke, whose bare name it has.
        place = row.line, function
        whole = began.setdefault((row.file, function.rsplit(".", 1)[-1]), set())
        if function == name:
            whole.add(place)
        else:
            place = max((p for p in whole if p[0] <= row.line), default=place)
        groups.setdefault((row.file, *place), []).append(row)
    found = []
    for (file, line, function), mine in groups.items():
        cost = sum(r.cost for r in mine)
        compilations = {events.group_of[r.id] for r in mine}
        found.append(
            FunctionCost(
                file,
                line,
                function,
                len(compilations),
                sum(why[n] != FIRST for n in compilations),
                sum(r.text("outcome") == "failed" for r in mine),
                cost,
                cost / total if total else 0.0,
                max(r.cost for r in mine),
                max(r.number("graph_ops") for r in mine),
                next((r.text("backend") for r in mine if r.text("backend")), ""),
                tuple(r.id for r in mine[:50]),
            )
        )
    return tuple(sorted(found, key=lambda f: (-f.cost_ns, f.file, f.line, f.function)))


def _sums(trace: Trace, which: str) -> list[dict[str, Any]]:
    """Own times of parts, of compilations outside of parts, and of parts that a cache skips, by compilation.

    One query: the details that it has to look into are most of what a trace holds about compilations.
    """
    present = known_kinds(trace)
    if present is not None and "compile" not in present:
        return []
    names = ", ".join(f"'{name}'" for name in CACHED_PHASES)
    ns = 'CAST(coalesce(sum("self"), 0) AS BIGINT) AS ns, count(*) AS n FROM rows'
    return trace.sql_arrow(
        'WITH rows AS MATERIALIZED (SELECT name, process, compile_id, parent, greatest("self", 0) AS "self", '
        f"{IS_PHASE} AS phase, coalesce(contains(detail, '\"artifact\"'), FALSE) AS artifact "
        f"FROM events WHERE kind = 'compile' AND {which}) "
        f"(SELECT 'phase' AS what, name, -1 AS process, NULL AS compile_id, {ns} WHERE phase AND parent >= 0 "
        "GROUP BY name ORDER BY ns DESC, name LIMIT 100) UNION ALL "
        f"(SELECT 'own', NULL, -1, NULL, {ns} WHERE NOT phase AND NOT artifact) UNION ALL "
        f"(SELECT 'cached', NULL, process, compile_id, {ns} "
        f"WHERE phase AND name IN ({names}) AND compile_id IS NOT NULL GROUP BY process, compile_id)"
    ).to_pylist()


def _phases(sums: list[dict[str, Any]], total: int) -> tuple[PhaseCost, ...]:
    table = [r for r in sums if r["what"] == "phase"]
    own = next((r for r in sums if r["what"] == "own"), {"ns": 0, "n": 0})
    found = [
        PhaseCost(
            r["name"] or "other",
            (r["name"] or "other").replace("_", " "),
            PHASES.get(r["name"] or "", ""),
            r["ns"],
            r["n"],
            r["ns"] / total if total else 0.0,
        )
        for r in table
    ]
    if found and own["ns"] > 0:
        share = own["ns"] / total if total else 0.0
        found.append(
            PhaseCost("", "between the parts", "Time of compilations outside any part.", own["ns"], own["n"], share)
        )
    return tuple(sorted(found, key=lambda p: (-p.self_ns, p.name)))


def _caches(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        results = row.detail.get("cache")
        if not isinstance(results, dict):
            continue
        for name, result in list(results.items())[:16]:
            if isinstance(result, str) and result in ("hit", "miss", "bypass") and len(str(name)) <= 60:
                counts = found.setdefault(str(name), {})
                counts[result] = counts.get(result, 0) + 1
    return found


def _cached(sums: list[dict[str, Any]], rows: Iterable[Row]) -> int | None:
    """Time in parts that a cache would have skipped, of compilations whose cache had nothing."""
    missed, told = set(), False
    for row in rows:
        results = row.detail.get("cache")
        values = [v for v in results.values() if isinstance(v, str)] if isinstance(results, dict) else []
        told |= bool(values)
        if any(v in ("miss", "bypass") for v in values):
            missed.add((row.process, row.compile_id))
    if not told:
        return None
    return sum(r["ns"] for r in sums if r["what"] == "cached" and (r["process"], r["compile_id"]) in missed)


def _assumption(events: CompileEvents, cached: int | None) -> str:
    parts = [
        "A cold start is what was compiled for the first time here, as long as it took here: nothing in any cache, "
        "one compilation after the other."
    ]
    hits = any(r.text("cache") == "hit" for r in events.eager) or any(
        "hit" in c for c in (_caches(events.compiles).values() if events.compiles else ())
    )
    if hits:
        parts.append("Some of it was found in a cache, so a cold start without that cache takes longer.")
    if cached is not None:
        parts.append(
            "A warm cache saves lowering, code generation, building kernels and autotuning where it had nothing here; "
            "tracing, guards and AOT run in every process."
        )
    if events.emulated:
        parts.append("The device is emulated: the compiler of a chip takes far longer, and is not measured here.")
    return " ".join(parts)


def sentence(costs: CompileCosts) -> str:
    """The costs in one sentence."""
    if not costs.observed and not costs.compiles and not costs.eager:
        return f"Compilation was not observed: {costs.reason}."
    if not costs.compiles and not costs.eager:
        return "Nothing was compiled."
    text = q.plural(costs.compiles, "compilation")
    if costs.recompiles:
        text += f", {costs.recompiles:,} of them again"
    if costs.compiles and (costs.eager or costs.cost_ns != costs.wall_ns):
        text += f", {q.duration(costs.cost_ns)} in sum"
    if costs.eager:
        text += f"; {q.plural(costs.eager, 'artifact')} of eager operators, {q.duration(costs.eager_ns)}"
    return text + f"; {q.share(costs.share_of_run)} of the run."
