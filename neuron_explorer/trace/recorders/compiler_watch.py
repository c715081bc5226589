"""Follows compilations from what the compiler's functions are given and return, and writes them down."""

from __future__ import annotations

import itertools
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from neuron_explorer.trace.compile_phases import is_envelope, phase_of
from neuron_explorer.trace.compile_spool import CompileWriter
from neuron_explorer.trace.compiles import GraphBreak, LimitReached, Place, Recompile
from neuron_explorer.trace.recompile_reasons import with_actual
from neuron_explorer.trace.recorders import compiler_reasons, torch_compiler_private
from neuron_explorer.trace.recorders.compiler_breaks import read_break
from neuron_explorer.trace.recorders.compiler_graphs import read_graph
from neuron_explorer.trace.recorders.compiler_places import Places, place_of_code
from neuron_explorer.trace.recorders.compiler_state import CAPTURE, OpenCompile, Threads, phase_record, small_facts

__all__ = ["Watch"]

_REMEMBERED = 10_000  # forward compilations that a backward compilation may belong to
_BEGINNINGS = {"entire_backward_compile": "backward", "compiled_autograd": "compiled_autograd"}
_CACHES = (("fx_graph_cache_", "fx_graph"), ("autograd_cache_", "aotautograd"))
_WORST_LAST = ("hit", "bypass", "miss")


class _Forward(NamedTuple):
    """What a backward compilation has from its forward one."""

    place: Place
    backend: str = ""
    dynamic: str = ""
    nth: int = 1


class Watch:
    """What compiles now, in all threads.

    Args:
        places: whose code is the user's.
        writer: the records of this process.
        listening: whether compilations that begin now are recorded.
        warn: show a Python warning for every recompilation.
        tracing_ops: how many operators compilers have traced so far, -1 unknown.
        compiling: is told whether the calling thread compiles.
    """

    def __init__(
        self,
        places: Places,
        writer: Callable[[], CompileWriter],
        listening: Callable[[], bool],
        *,
        warn: bool,
        tracing_ops: Callable[[], int],
        compiling: Callable[[bool], None] | None,
    ) -> None:
        self.listening = listening
        self.has_limit = True  # whether the compiler says where it checks its limit
        self._places = places
        self._writer = writer
        self._warn = warn
        self._tracing_ops = tracing_ops
        self._threads = Threads(compiling)
        self._keys = itertools.count(1)
        self._forwards: OrderedDict[str, _Forward] = OrderedDict()

    # Frames ----------------------------------------------------------------------------

    def frame_begins(self, positions: Mapping[str, int], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        def argument(name: str) -> Any:
            position = positions.get(name, len(args))
            return kwargs.get(name, args[position] if position < len(args) else None)

        compile_id = argument("compile_id")
        number = torch_compiler_private.frame_compile_number(compile_id)
        backend, dynamic = torch_compiler_private.backend_of(argument("compiler_fn"))
        text = "" if compile_id is None else str(compile_id)
        opened = OpenCompile(
            compile_id=text,
            thread=self._threads.native_id,
            place=place_of_code(argument("code")),
            trigger="compiled_autograd" if text.startswith("!") else "forward",
            callers=self._places.callers(sys._getframe(3)),
            backend=backend,
            dynamic=dynamic,
            nth=max(1, number + 1),
            limit=torch_compiler_private.recompile_limit(),
            local=argument("locals"),
            outside=argument("globals"),
        )
        self._start(opened)
        if not self.has_limit:
            self._begin(opened)
        return opened

    def release(self, opened: OpenCompile | None) -> None:
        """Whatever went wrong, this compilation is over."""
        if opened is not None:
            self._threads.close(opened)

    def _start(self, opened: OpenCompile) -> None:
        stale = self._threads.with_trigger(CAPTURE)
        if stale is not None and "/" not in stale.compile_id:  # nothing compiles inside a capture: it failed
            self._end(stale, "failed", {})
        opened.key, opened.start = next(self._keys), time.monotonic_ns()
        opened.tracing_ops = self._tracing_ops()
        opened.counters = torch_compiler_private.neuron_counters()
        self._threads.open(opened)

    def _begin(self, opened: OpenCompile) -> None:
        """It is one, and not the attempt that finds the limit reached: say so before it takes its time."""
        if opened.begun:
            return
        opened.begun = True
        opened.local = opened.outside = None
        writer = self._writer()
        writer.begin(opened.compilation())
        if opened.recompiled:
            self._write_recompile(opened)
            if self._warn:
                compiler_reasons.warn_of_recompile(opened.compilation(), opened.reasons)

    def _write_recompile(self, opened: OpenCompile) -> None:
        previous = opened.reasons[0].entry if opened.reasons else ""
        self._writer().recompile(Recompile(opened.key, opened.reasons, previous))

    def on_reasons(self, texts: Any, versions: Any) -> None:
        opened = self._threads.current
        if opened is None or opened.recompiled:
            return
        opened.recompiled = True
        guards = torch_compiler_private.guards_of_versions(versions)
        opened.reasons = compiler_reasons.read(texts, guards, opened.local or {}, opened.outside or {})
        if opened.begun:
            self._write_recompile(opened)

    def on_limit(self, result: Any) -> None:
        opened = self._threads.current
        if opened is None or opened.begun or opened.trigger == "backward":
            return
        exceeded, kind = (result[0], str(result[1])) if isinstance(result, tuple) else (bool(result), "")
        if not exceeded:
            self._begin(opened)
            return
        opened.limit_reached = True
        kind = kind or "recompile_limit"
        limit = torch_compiler_private.recompile_limit(kind)
        reached = LimitReached(
            time.monotonic_ns(), opened.thread, opened.place, limit, kind, opened.callers, opened.reasons
        )
        self._writer().limit(reached)
        if self._warn:
            compiler_reasons.warn_of_limit(reached)

    def frame_ends(self, opened: OpenCompile | None, result: Any) -> None:
        if opened is None:
            return
        self._remember(opened)
        more: dict[str, Any] = {}
        texts = torch_compiler_private.guard_texts(result)
        if texts is not None:
            more["guards"], more["guard_count"] = tuple(texts), len(texts)
        if torch_compiler_private.compiled(result):
            outcome = "ok"
            if opened.recompiled:
                self._complete_reasons(opened, texts or [])
        else:
            outcome = "skipped"
            more["failure"] = {"type": "skipped", "reason": torch_compiler_private.skip_reason(result)}
        self._end(opened, outcome, more)

    def frame_fails(self, opened: OpenCompile | None, error: BaseException) -> None:
        if opened is not None:
            self._end(opened, "failed", {"failure": self._failure(error)})

    def _failure(self, error: BaseException) -> dict[str, Any]:
        failure: dict[str, Any] = {"type": type(error).__qualname__, "reason": _message(error)}
        stack = self._places.of_summary(getattr(error, "real_stack", None))
        if stack:
            failure.update(file=stack[0].file, line=stack[0].line, function=stack[0].function)
        return failure

    def _complete_reasons(self, opened: OpenCompile, guards: list[str]) -> None:
        completed = tuple(with_actual(reason, guards) for reason in opened.reasons)
        if completed != opened.reasons:
            opened.reasons = completed
            key, opened.key = opened.key, opened.key - opened.attempt
            self._write_recompile(opened)
            opened.key = key

    def _end(self, opened: OpenCompile, outcome: str, more: dict[str, Any]) -> None:
        """The last attempt has ended."""
        end = time.monotonic_ns()
        self._threads.close(opened)
        opened.local = opened.outside = None
        if opened.limit_reached:
            return
        if not opened.begun:
            self._begin(opened)
        metrics = torch_compiler_private.metrics_of(opened.compile_id, opened.trigger != "backward")
        self._add_metrics(opened, metrics, more)
        self._add_neuron_cache(opened)
        self._write_end(opened, end, outcome, {**more, "restart_reasons": tuple(opened.restarts)})

    def _write_end(self, opened: OpenCompile, end: int, outcome: str, more: dict[str, Any]) -> None:
        before, now = opened.tracing_ops, self._tracing_ops()
        traced = now - before if not opened.shared and 0 <= before <= now else -1
        if opened.structured:
            more = {**more, "facts": {**more.get("facts", {}), **opened.structured}}
        writer = self._writer()
        for found, count in opened.breaks.values():
            if count > 1:
                writer.graph_break(replace(found, count=count - 1))  # the first was written when it came
        writer.compilation(opened.compilation(end, outcome, tracing_ops=traced, **more))

    def _add_metrics(self, opened: OpenCompile, metrics: Any, more: dict[str, Any]) -> None:
        if metrics is None:
            return
        count = getattr(metrics, "guard_count", None)
        if isinstance(count, int):
            more["guard_count"] = count
        facts = {name: getattr(metrics, name, None) for name in
                 ("graph_node_count", "graph_input_count", "shape_env_guard_count", "cache_size",
                  "accumulated_cache_size", "dynamo_compile_time_before_restart_us", "guard_latency_us",
                  "inductor_fx_remote_cache_hit_count", "num_graph_breaks")}  # fmt: skip
        more["facts"] = {name: value for name, value in facts.items() if isinstance(value, int) and value > 0}
        for reason in getattr(metrics, "restart_reasons", None) or ():
            if isinstance(reason, str) and reason not in opened.restarts:
                opened.restarts.append(reason)
        failure = more.get("failure")
        if failure and failure["type"] != "skipped":
            file = getattr(metrics, "fail_user_frame_filename", None)
            line = getattr(metrics, "fail_user_frame_lineno", None)
            if isinstance(file, str) and isinstance(line, int) and "file" not in failure:
                failure.update(file=file, line=line)

    def _add_neuron_cache(self, opened: OpenCompile) -> None:
        now = torch_compiler_private.neuron_counters()
        for result in _WORST_LAST:
            name = f"artifact_{result}"
            if now.get(name, 0) > opened.counters.get(name, 0):
                opened.cache["neuron"] = result

    def _remember(self, opened: OpenCompile) -> None:
        self._forwards[opened.compile_id] = _Forward(opened.place, opened.backend, opened.dynamic, opened.nth)
        while len(self._forwards) > _REMEMBERED:
            self._forwards.popitem(last=False)

    # Events ----------------------------------------------------------------------------

    def on_event(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        now = time.monotonic_ns()
        names = ("event_name", "time_ns", "phase", "metadata")
        given = {**dict(zip(names, args[1:], strict=False)), **kwargs}
        label, metadata = str(given.get("event_name", "")), given.get("metadata")
        begins = given.get("phase") == "B"
        current = self._threads.current
        if current is None and not self.listening():
            return
        if label in _BEGINNINGS:
            if begins:
                if self.listening():
                    self._other_begins(label, metadata)
            else:
                ended = self._threads.with_trigger(_BEGINNINGS[label])
                if ended is not None:
                    error = sys.exc_info()[1]
                    more = {"failure": self._failure(error)} if error is not None else {}
                    self._end(ended, "failed" if error is not None else "ok", more)
            return
        if label.startswith("compile_attempt_"):
            reason = None if begins else torch_compiler_private.restart_reason(sys.exc_info()[1])
            if reason is not None and current is not None and current.begun:
                self._restart(current, reason, now)
            return
        if is_envelope(label):
            return
        if begins:
            self._threads.open_phase(label, now)
            return
        start = self._threads.close_phase(label)
        if start is None:
            return
        owner = current or self._threads.with_id(str((metadata or {}).get("compile_id", "")))
        if owner is not None and not owner.begun:
            return
        key, thread = (owner.key if owner is not None else -1), self._threads.native_id
        self._writer().phase(phase_record(key, phase_of(label), label, start, now, thread, small_facts(metadata)))

    def _other_begins(self, label: str, metadata: Any) -> None:
        """The backward pass of a compiled function, or compiled autograd's capture."""
        compile_id = str((metadata or {}).get("compile_id", "")) or torch_compiler_private.current_compile_id()
        compile_id = "" if compile_id == "None" else compile_id
        trigger = _BEGINNINGS[label]
        callers = self._places.callers(sys._getframe(3))
        forward = self._forwards.get(compile_id) or _Forward(callers[0] if callers else Place("", -1, trigger))
        opened = OpenCompile(
            compile_id=compile_id,
            thread=self._threads.native_id,
            place=forward.place,
            trigger=trigger,
            callers=callers,
            backend=forward.backend,
            dynamic=forward.dynamic,
            nth=forward.nth,
        )
        self._start(opened)
        self._begin(opened)

    def _restart(self, opened: OpenCompile, reason: str, now: int) -> None:
        opened.restarts.append(reason)
        self._write_end(opened, now, "restarted", {"restart_reasons": (reason,)})
        opened.next_attempt(next(self._keys), now, self._tracing_ops())
        self._writer().begin(opened.compilation())

    def on_instant(self, name: Any) -> None:
        opened = self._threads.current
        if opened is None or not isinstance(name, str):
            return
        for start, cache in _CACHES:
            if name.startswith(start):
                result = name[len(start) :]
                if result in _WORST_LAST:
                    known = opened.cache.get(cache, result)
                    opened.cache[cache] = max(known, result, key=_WORST_LAST.index)

    def on_graph(self, module: Any) -> None:
        opened = self._threads.current
        if opened is not None and module is not None:
            opened.graph = read_graph(module, self._places)

    def on_break(self, positions: Mapping[str, int], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        opened = self._threads.current
        if opened is None or not opened.begun:
            return

        def argument(name: str) -> Any:
            position = positions.get(name, len(args))
            return kwargs.get(name, args[position] if position < len(args) else None)

        error = argument("exc") or sys.exc_info()[1]
        if getattr(error, "logged", False):
            return
        kind = getattr(error, "gb_type", None)
        text = getattr(error, "msg", None) or argument("reason")
        read = read_break(str(text), kind if isinstance(kind, str) else "")
        stack = argument("user_stack") or getattr(error, "real_stack", None) or torch_compiler_private.traced_stack()
        inside = self._places.of_summary(stack)
        place = inside[0] if inside else opened.place
        site = (place.file, place.line, read.type)
        if site in opened.breaks:
            found, count = opened.breaks[site]
            opened.breaks[site] = found, count + 1
            return
        found = GraphBreak(
            key=opened.key,
            time=time.monotonic_ns(),
            thread=opened.thread,
            place=place,
            reason=read.reason,
            type=read.type,
            explanation=read.explanation,
            hints=read.hints,
            callers=inside[1:] + opened.callers,
        )
        opened.breaks[site] = found, 1
        self._writer().graph_break(found)

    def on_structured(self, name: str, facts: Mapping[str, Any]) -> None:
        opened = self._threads.current
        if opened is not None:
            opened.structured.update(facts)


def _message(error: BaseException) -> str:
    """The text of an exception of torch's; of the program's own only what it was made with."""
    if type(error).__module__.partition(".")[0] == "torch" or type(error).__module__ == "builtins":
        return str(error)[:2000]
    arguments = [argument for argument in error.args if type(argument) in (str, int, float)]
    return ", ".join(map(str, arguments))[:2000]


