"""From what the log says of a process to the model of its compilations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from ...compile_spool import MAX_PER_PLACE
from ...compiles import (
    Compilation,
    Compiles,
    GraphBreak,
    LimitReached,
    Phase,
    Place,
    Reason,
    Recompile,
)
from ...recompile_reasons import closest, parse_reason, with_actual
from .attempts import Attempt, OpenCompile
from .details import place_of
from .process import ProcessLog
from .texts import backend_of_failure, is_limit

__all__ = ["compiles_of"]

_AUTOGRAD: Final = Place("<compiled autograd>", -1, "compiled_autograd")
_UNKNOWN: Final = Place("<unknown>", -1, "")
_WORST: Final = ("miss", "bypass", "hit")
_MAX_CALLERS: Final = 64


def compiles_of(log: ProcessLog) -> Compiles:
    """The compilations of one process, each list by time."""
    return _Model(log).compiles()


class _Model:
    def __init__(self, log: ProcessLog) -> None:
        self._log = log
        self._counts: Counter[tuple[str, Place]] = Counter()
        self._recompiles_at: Counter[Place] = Counter()
        self._places: dict[str, Place] = {}  # frame id -> the function
        self._callers: dict[str, tuple[Place, ...]] = {}
        self._ready: dict[str, set[str]] = {}  # frame id -> ids whose compilation succeeded
        self._configured = (-1, -1)
        self.compilations: list[Compilation] = []
        self.phases: list[Phase] = []
        self.recompiles: list[Recompile] = []
        self.breaks: list[GraphBreak] = []
        self.limits: list[LimitReached] = []
        self.dropped: Counter[str] = Counter(log.dropped)

    def compiles(self) -> Compiles:
        threads = _threads(self._log.done)
        for compile_, thread in zip(self._log.done, threads, strict=True):
            self._add(compile_, thread)
        return Compiles(
            self._log.pid,
            tuple(sorted(self.compilations, key=lambda c: (c.start, c.key))),
            tuple(sorted(self.phases, key=lambda p: p.start)),
            tuple(self.recompiles),
            tuple(sorted(self.breaks, key=lambda b: b.time)),
            tuple(sorted(self.limits, key=lambda x: x.time)),
            dict(self.dropped),
            self._notes(),
        )

    def _add(self, compile_: OpenCompile, thread: int) -> None:
        metrics = compile_.metrics
        if compile_.limits != (-1, -1):
            self._configured = compile_.limits
        frame = compile_.compile_id.rpartition("/")[0] or compile_.compile_id
        place = place_of(compile_)
        if place is None:
            same = self._places.get(frame)
            place = same or (_AUTOGRAD if compile_.trigger == "compiled_autograd" else _UNKNOWN)
        elif compile_.trigger != "backward":
            self._places[frame] = place
        callers = tuple(reversed(compile_.stack[:-1]))[:_MAX_CALLERS]
        self.dropped.update(compile_.dropped)
        if is_limit(metrics):
            self._limit(compile_, thread, place, callers or self._callers.get(frame, ()))
            return
        if callers:
            self._callers[frame] = callers
        self._counts[compile_.trigger, place] += 1
        nth = self._counts[compile_.trigger, place]
        whole = nth <= MAX_PER_PLACE + 1
        attempts = [compile_.attempts[number] for number in sorted(compile_.attempts)]
        for position, attempt in enumerate(attempts):
            made = self._compilation(compile_, attempts, position, place, callers, nth, thread, whole)
            self.compilations.append(made)
            if whole:
                self.phases += attempt.phase_rows(thread)
            elif attempt.phases:
                self.dropped["phases"] += len(attempt.phases)
            self._take_breaks(made, attempt, thread)
        if not attempts:
            return
        last = self.compilations[-1]
        if compile_.trigger != "backward":
            if compile_.compile_id.endswith("/0"):  # ids begin again after a reset
                self._ready[frame] = set()
            ready = self._ready.setdefault(frame, set())
            self._recompile(compile_, last, place, attempts[-1], bool(ready))
            if last.outcome == "ok":
                ready.add(compile_.compile_id)

    def _compilation(
        self, compile_: OpenCompile, attempts: list[Attempt], position: int, place: Place,
        callers: tuple[Place, ...], nth: int, thread: int, whole: bool,
    ) -> Compilation:  # fmt: skip
        attempt, metrics = attempts[position], compile_.metrics
        is_last = position == len(attempts) - 1
        # The frame's own time before its first attempt and after its last is theirs.
        start = compile_.start if position == 0 else attempt.start
        end = compile_.end if is_last else max(attempt.end, attempts[position + 1].start, start)
        restarts = metrics.get("restart_reasons")
        reasons = [str(r)[:4000] for r in restarts] if isinstance(restarts, list) else []
        outcome, failure = "restarted", {}
        if is_last:
            outcome, failure = _outcome(compile_, attempt)
        mine = tuple(reasons) if is_last else tuple(reasons[position : position + 1])
        backend = "inductor" if compile_.inductor else backend_of_failure(str(failure.get("reason", "")))
        facts = dict(attempt.facts) if whole else {}
        counts = {f"{cache}_cache_{result}": n for (cache, result), n in sorted(attempt.cache.items())}
        if counts:
            facts["cache_events"] = counts
        limit = -1 if compile_.trigger == "backward" else self._configured[0]
        recorded_guards = metrics.get("guard_count") if is_last else None
        operators = metrics.get("graph_op_count") if is_last and compile_.trigger != "backward" else None
        return Compilation(
            key=attempt.key, compile_id=compile_.compile_id, attempt=attempt.number, start=start, end=end,
            thread=thread, place=place, trigger=compile_.trigger, backend=backend, outcome=outcome, nth=nth,
            limit=limit, callers=callers, restart_reasons=mine, failure=failure,
            guard_count=_count(recorded_guards, attempt.guard_count), guards=attempt.guards if whole else (),
            graph_ops=_count(operators, attempt.graph_ops), graph=attempt.graph if whole else (),
            graph_truncated=attempt.graph_truncated or (not whole and bool(attempt.graph)),
            cache=_cache(attempt), inputs=_inputs(attempt) if whole else "", facts=facts,
        )  # fmt: skip

    def _take_breaks(self, made: Compilation, attempt: Attempt, thread: int) -> None:
        for time, found in attempt.breaks:
            inside = max(time, made.start)
            if made.end >= 0:  # the log's own times have milliseconds
                inside = min(inside, made.end)
            self.breaks.append(
                GraphBreak(made.key, inside, thread, found.place, found.reason, found.type, found.explanation,
                           found.hints, found.callers)
            )  # fmt: skip

    def _recompile(
        self, compile_: OpenCompile, last: Compilation, place: Place, attempt: Attempt, again: bool
    ) -> None:
        texts = compile_.reasons
        if not texts:
            told = compile_.metrics.get("recompile_reason")
            texts = [told] if isinstance(told, str) and told else []
        if not texts:
            # Without a word of Dynamo it is a recompilation only when an entry was there.
            if not again:
                return
            texts = [""]
        self._recompiles_at[place] += 1
        if self._recompiles_at[place] > MAX_PER_PLACE:
            self.dropped[f"recompiles at {place.file}:{place.line}"] += 1
            return
        reasons = _reasons(texts, attempt.guards)
        self.recompiles.append(Recompile(last.key, reasons, reasons[0].entry if reasons else ""))

    def _limit(self, compile_: OpenCompile, thread: int, place: Place, callers: tuple[Place, ...]) -> None:
        said = str(compile_.metrics.get("fail_reason") or "")
        whole = "accumulated" in said
        self.limits.append(
            LimitReached(
                compile_.start, thread, place, self._configured[1 if whole else 0],
                "accumulated_recompile_limit" if whole else "recompile_limit", callers,
                _reasons(compile_.reasons, ()),
            )
        )  # fmt: skip

    def _notes(self) -> tuple[str, ...]:
        read, notes = self._log.read, []
        if self._log.done and not read["chromium_event"]:
            notes.append("the log has no timed events: compilations have no parts")
        if self.compilations and not read["dynamo_start"]:
            notes.append("the log does not say which lines led to a compilation")
        # Of the torches that were tried, 2.9 and newer, and those log their Python's version.
        if read["dynamo_start"] and self._log.python_version:
            notes.append("torch leaves the two innermost callers out of its log")
        return tuple(notes)


def _reasons(texts: Iterable[str], guards: tuple[str, ...]) -> tuple[Reason, ...]:
    """The closest entry's first; what was found comes from the new guards where the text lacks it."""
    reasons = [with_actual(parse_reason(text), guards) for text in texts]
    first = closest(reasons)
    if first > 0:
        reasons.insert(0, reasons.pop(first))
    return tuple(reasons)


def _outcome(compile_: OpenCompile, attempt: Attempt) -> tuple[str, dict[str, Any]]:
    metrics = compile_.metrics
    kind, reason = metrics.get("fail_type"), metrics.get("fail_reason")
    if isinstance(kind, str) and kind:
        failure: dict[str, Any] = {"type": kind[:200], "reason": str(reason or "")[:4000]}
        file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
        if isinstance(file, str) and file and file != "N/A":
            failure |= {"file": file[:4000], "line": line if isinstance(line, int) else -1}
        return "failed", failure
    if not metrics and attempt.error:
        last = attempt.error.strip().rpartition("\n")[2]
        kind, _, reason = last.partition(": ")
        return "failed", {"type": kind.rpartition(".")[2][:200], "reason": reason[:4000]}
    if not compile_.closed:
        return "unended", {}
    if metrics.get("has_guarded_code") is False:
        return "skipped", {}
    return "ok", {}


def _cache(attempt: Attempt) -> dict[str, str]:
    found: dict[str, str] = {}
    for cache in sorted({cache for cache, _ in attempt.cache}):
        found[cache] = next(result for result in _WORST if attempt.cache[cache, result])
    return found


def _inputs(attempt: Attempt) -> str:
    text = json.dumps(attempt.inputs) if attempt.inputs else ""
    return text if len(text) <= 4000 else ""


def _count(told: Any, counted: int) -> int:
    return told if isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 31 else counted


def _threads(done: list[OpenCompile]) -> list[int]:
    """A thread for each compilation: the log names only the process, so those that overlap without
    one inside the other, or whose events alternate, are on another."""
    open_: list[list[OpenCompile]] = []
    found = []
    for compile_ in done:  # by start
        for thread, stack in enumerate(open_):
            while stack and stack[-1].end <= compile_.start:  # also one whose end was never seen
                stack.pop()
            inside = not stack or (compile_.closed and compile_.end <= stack[-1].end)
            if inside and not any(o.number in compile_.conflicts or compile_.number in o.conflicts for o in stack):
                stack.append(compile_)
                found.append(thread + 1)
                break
        else:
            open_.append([compile_])
            found.append(len(open_))
    return found
