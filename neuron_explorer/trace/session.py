"""profile(): starts and stops the recorders, and turns what they wrote into a trace.

Nothing here may change what the program does: its results, random state, compilations,
exceptions. Trouble after the start is a warning; the program goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from neuron_explorer.errors import ProfilerActiveError
from neuron_explorer.trace import environment, output
from neuron_explorer.trace.notices import warn
from neuron_explorer.trace.recorders import graph_lines
from neuron_explorer.trace.recorders.backend import PAUSE, RESUME, STEP, WINDOW, Backend
from neuron_explorer.trace.recorders.spawned import start_child
from neuron_explorer.trace.registrations import ENTRY
from neuron_explorer.trace.schedule import Schedule
from neuron_explorer.trace.settings import Settings
from neuron_explorer.trace.uncompiled import uncompiled

if TYPE_CHECKING:
    from neuron_explorer.trace.convert import ConvertResult
    from neuron_explorer.trace.recorders.beside import SmallRecorders
    from neuron_explorer.trace.recorders.neuron_facts import NeuronFacts

__all__ = ["DISABLE_VARIABLE", "Profile", "Settings", "disabled", "start_child"]

DISABLE_VARIABLE = "NEURON_EXPLORER_DISABLE"

_MANY_EVENTS = 2_000_000  # from here on, writing the trace takes long enough to say so

_lock = threading.RLock()
_active: Profile | None = None


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def disabled() -> bool:
    """Whether NEURON_EXPLORER_DISABLE turns every recording into a no-op."""
    return os.environ.get(DISABLE_VARIABLE, "") not in ("", "0")


class Profile:
    """One recording; made by :func:`neuron_explorer.profile`.

    Use it with ``with``, or call :meth:`start` and :meth:`stop`. A program that ends between
    the two still gets its trace.
    """

    @uncompiled
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        schedule: Schedule | None = None,
        settings: Settings | None = None,
    ) -> None:
        if schedule is not None and not isinstance(schedule, Schedule):
            raise ValueError("schedule must come from neuron_explorer.schedule(...)")
        self._disabled = disabled()
        self._overwrite = overwrite
        self._schedule = schedule
        self._settings = settings or Settings()
        self._rank, self._world_size = environment.rank_and_world_size()
        self._output = output.output_path(path, self._rank, self._world_size, environment.restart_count())
        self.says_where = True  # rank 0 of several says what it wrote, where the name was derived
        self._derived = "{rank}" not in os.fspath(path)
        self._error: Exception | None = None
        self._result: ConvertResult | None = None
        self._stats: dict[str, Any] = {}
        self._reset()
        if not self._disabled and _active is None:  # else start() says what is in the way
            output.make_directory(path)
            output.make_part(self._output)
            output.check_output(self._output, overwrite=overwrite)

    def _reset(self) -> None:
        self._backend: Backend | None = None
        self._spool: Path | None = None
        self._pid = -1
        self._step = 0
        self._paused_by_user = False
        self._paused = False
        self._ever_recorded = False
        self._failure_told = False
        self._session: dict[str, Any] = {}
        self._neuron: NeuronFacts | None = None
        self._small: SmallRecorders | None = None

    # What a user reads -----------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The trace file (absolute)."""
        return self._output

    @property
    def recording(self) -> bool:
        """Whether this object is between start and stop (paused or not)."""
        return self._backend is not None and self._pid == os.getpid()

    @property
    def recorder(self) -> str:
        """ "native" or "twin" once started, "" before."""
        return self._backend.name if self._backend is not None else str(self._session.get("recorder", ""))

    @property
    def stats(self) -> dict[str, Any]:
        """Counters: events, tracing_ops (operators a compiler traced), dropped, threads, failed."""
        if self._backend is not None and self._pid == os.getpid():
            return dict(self._backend.stats() or {})
        return dict(self._stats)

    @property
    def result(self) -> ConvertResult | None:
        """What the conversion reports, once the trace is written."""
        return self._result

    @property
    def error(self) -> Exception | None:
        """Why the trace could not be written, or None. What was recorded is then still in the spool."""
        return self._error

    # Start and stop --------------------------------------------------------------------

    @uncompiled
    def start(self) -> None:
        """Begin to record.

        Raises:
            OutputError: the trace cannot be written; nothing has been started.
            ProfilerActiveError: another recording of this process is active.
            NativeUnavailable: ``recorder="native"`` was asked for and cannot be built.
        """
        if self._disabled:
            return
        self._take_turn()
        try:
            self._start()
        except BaseException:
            self._abort_start()
            raise

    @uncompiled
    def stop(self) -> None:
        """End the recording and write the trace. Does nothing when none is active."""
        with _lock:
            if self._backend is None:
                return
            if self._pid != os.getpid():
                self._leave_to_parent()
                return
            try:
                self._stop_recorders()
                self._write_trace()
            finally:
                self._release()

    @uncompiled
    def __enter__(self) -> Profile:
        self.start()
        return self

    @uncompiled
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception as error:  # the program's own exception is the one to see
            warn(f"the recording could not be ended: {_one_line(error)}")

    # While it runs ---------------------------------------------------------------------

    @uncompiled
    def step(self) -> None:
        """Mark the end of a step. With a schedule this is what moves it on."""
        backend = self._backend
        if backend is None or self._pid != os.getpid():
            return
        small = self._small
        if not self._paused and small is not None:
            small.step()
            now = backend.now()
            backend.add(STEP, "step", now, now, seq=self._step)
            found = small.find_groups()
            if small.find_device() or found:
                self._refresh_session()  # a killed program's trace, too, says what it ran on
        self._step += 1
        self._follow_schedule()
        self._tell_failure()

    @uncompiled
    def pause(self) -> None:
        """Record nothing until :meth:`resume`. Steps are still counted."""
        self._paused_by_user = True
        self._apply_pause()

    @uncompiled
    def resume(self) -> None:
        """Record again (where the schedule, if there is one, says so)."""
        self._paused_by_user = False
        self._apply_pause()

    # Inside ----------------------------------------------------------------------------

    def _take_turn(self) -> None:
        global _active
        with _lock:
            if _active is not None:
                if _active._pid not in (-1, os.getpid()):
                    raise ProfilerActiveError(
                        "This process was forked from one that is recording, and is part of its recording (to "
                        f"{_active.path}); start yours after the fork."
                    )
                raise ProfilerActiveError(
                    f"A recording to {_active.path} is active in this process; end it before you start "
                    "another (one profile() at a time)."
                )
            _active = self
            self._pid = os.getpid()

    def _start(self) -> None:
        from neuron_explorer.trace.recorders.beside import SmallRecorders
        from neuron_explorer.trace.recorders.neuron_facts import NeuronFacts
        from neuron_explorer.trace.recorders.select import choose
        from neuron_explorer.trace.recorders.torch_private import hide_from_dynamo

        self._error, self._result, self._stats = None, None, {}
        output.check_output(self._output, overwrite=self._overwrite)
        chosen = choose(self._settings.recorder)  # may build for half a minute
        hide_from_dynamo(Profile.step, Profile.pause, Profile.resume)
        self._neuron = NeuronFacts()
        self._neuron.start()
        session = self._describe(chosen.name, chosen.reason)
        self._spool = output.claim_spool(self._output, overwrite=self._overwrite)
        now = {"start_unix_ns": time.time_ns(), "start_monotonic_ns": time.monotonic_ns()}
        self._session = {**session, **now}
        self._write_session()
        backend = chosen.start(
            self._spool,
            stacks=self._settings.stacks,
            shapes=self._settings.shapes,
            tensors=self._settings.tensors,
            memory=self._settings.memory,
            use_map=output.mapping_is_safe(self._spool),
        )
        self._backend = backend
        self._small = SmallRecorders(self._settings, self._session, self._spool, backend)
        self._small.start()
        self._session[ENTRY] = self._small.custom_operators()
        self._session["capabilities"] = self._small.capabilities()
        self._session["distributed"] = self._small.distributed()
        self._write_session()
        atexit.register(self._at_exit)
        self._apply_pause()
        self._follow_schedule()

    def _abort_start(self) -> None:
        backend, spool = self._backend, self._spool
        self._stop_small_recorders()
        if backend is not None:
            with contextlib.suppress(Exception):
                backend.stop()
        if spool is not None:
            import shutil

            shutil.rmtree(spool, ignore_errors=True)
        self._release()

    def _stop_recorders(self) -> None:
        backend = self._backend
        assert backend is not None
        if self._small is not None:
            if not self._paused:
                self._small.finish_counting()
            self._session["capabilities"] = self._small.capabilities()
        self._stop_small_recorders(self._spool)
        live = _attempt(backend.stats, {})
        counters = _attempt(backend.stop, {})
        self._stats = {**live, **counters}
        self._tell_failure()
        if self._settings.source != "none" and not self._stats.get("failed"):
            self._keep_sources_in_memory()

    def _keep_sources_in_memory(self) -> None:
        from neuron_explorer.trace.recorders.memory_sources import append_sources

        assert self._spool is not None
        pid = os.getpid()
        own = [d for d in self._spool.glob(f"p{pid}*") if d.name.partition("-")[0] == f"p{pid}"]
        try:
            for directory in own:
                append_sources(directory)
        except Exception as error:  # a loader of the program's own may raise anything
            warn(f"the text of code that is in no file could not be kept: {_one_line(error)}")

    def _stop_small_recorders(self, keep_in: Path | None = None) -> None:
        small, self._small = self._small, None
        if small is None:
            return
        with contextlib.suppress(Exception):  # asks functions of the program's where they are written
            self._session[ENTRY] = small.custom_operators()
        small.stop(keep_in)
        with contextlib.suppress(Exception):
            self._session["distributed"] = small.distributed()
        if small.device_reason and "capabilities" in self._session:
            self._session["capabilities"]["device_time"] = {"observed": False, "reason": small.device_reason}

    def _write_trace(self) -> None:
        assert self._spool is not None
        began = time.monotonic_ns()
        events = self._stats.get("events", 0)
        if events >= _MANY_EVENTS:
            print(f"neuron-explorer: writing {events:,} events to {self._output}", file=sys.stderr)
        try:
            self._refresh_session()
            from neuron_explorer.trace.convert import convert

            facts = self._neuron.document() if self._neuron is not None else {}
            self._result = convert(self._spool, self._output, extra={"stop_began_monotonic_ns": began, **facts})
        except Exception as error:
            self._error = error
            warn(
                f"the trace {self._output} could not be written ({_one_line(error)}). What was recorded is "
                f"kept; build the trace with `neuron-explorer recover {self._spool}`."
            )
        else:
            self._warn_when_nothing_was_active()
            self._say_where()

    def _say_where(self) -> None:
        if self.says_where and self._derived and self._world_size > 1 and self._rank == 0:
            text = f"neuron-explorer: rank 0 of {self._world_size} wrote {self._output}; each rank writes its own trace"
            if output.rank_of_part(self._output.parent.name) is not None:
                text += f"; look at all of them with: nxplorer serve {shlex.quote(str(self._output.parent.parent))}"
            print(text, file=sys.stderr)

    def _warn_when_nothing_was_active(self) -> None:
        if self._schedule is None or self._ever_recorded:
            return
        if self._step == 0:
            warn(
                "a schedule was given, but prof.step() was never called, so nothing was recorded; "
                "call prof.step() at the end of each step."
            )
        else:
            warn(
                f"nothing was recorded: the run ended after {self._step} steps, before the schedule's first "
                f"recorded one (wait={self._schedule.wait})."
            )

    def _release(self) -> None:
        global _active
        with _lock:
            atexit.unregister(self._at_exit)
            session = self._session
            self._reset()
            self._session = session
            if _active is self:
                _active = None

    def _leave_to_parent(self) -> None:
        """In a forked child: end its part of the recording, touch nothing of the parent's."""
        global _active
        backend = self._backend
        self._stop_small_recorders()
        if backend is not None:
            _attempt(backend.stop, {})
        self._backend = None
        if _active is self:
            _active = None

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            self.stop()

    def _follow_schedule(self) -> None:
        if self._schedule is None:
            return
        self._apply_pause()
        backend = self._backend
        if backend is not None and not self._paused and self._schedule.opens_window(self._step):
            now = backend.now()
            backend.add(WINDOW, "active", now, now, seq=self._step)

    def _apply_pause(self) -> None:
        backend = self._backend
        if backend is None or self._pid != os.getpid():
            return
        waiting = self._schedule is not None and self._schedule.phase(self._step) == "wait"
        wanted = self._paused_by_user or waiting
        now = backend.now()
        if wanted and not self._paused:
            if self._small is not None:
                self._small.pause()
            backend.add(PAUSE, "pause", now, now, seq=self._step)
            backend.pause()
        elif self._paused and not wanted:
            backend.resume()
            backend.add(RESUME, "resume", now, now, seq=self._step)
            if self._small is not None:
                self._small.resume()
        self._paused = wanted
        self._ever_recorded |= not wanted

    def _tell_failure(self) -> None:
        backend = self._backend
        if self._failure_told or backend is None:
            return
        stats = self._stats or _attempt(backend.stats, {})
        reason = stats.get("failed") or stats.get("reason_stopped")
        if reason:
            self._failure_told = True
            warn(
                f"recording to {self._output} stopped early: {reason}. The program goes on; the trace holds "
                "what was recorded until then."
            )

    def _describe(self, recorder: str, reason: str) -> dict[str, Any]:
        settings = asdict(self._settings)
        if self._schedule is not None:
            settings["schedule"] = asdict(self._schedule)
        facts = environment.facts(self._settings.user_code)
        return {
            **facts,
            "output": self._output.name,
            "rank": self._rank,
            "world_size": self._world_size,
            "settings": settings,
            "recorder": recorder,
            "recorder_reason": reason,
            "capabilities": {},
        }

    def _refresh_session(self) -> None:
        """What the program may have set up only after the start: device and process group."""
        self._session["device"] = environment.device_facts()
        self._session["rank"], self._session["world_size"] = environment.rank_and_world_size()
        if self._small is not None:
            self._session[ENTRY] = self._small.custom_operators()
            self._session["capabilities"] = self._small.capabilities()
            self._session["distributed"] = self._small.distributed()
        self._session[graph_lines.ENTRY] = graph_lines.document()
        self._write_session()

    def _write_session(self) -> None:
        assert self._spool is not None
        target = self._spool / "session.json"
        temporary = target.with_suffix(".tmp")
        temporary.write_text(json.dumps(self._session), encoding="utf-8")
        temporary.replace(target)


def _attempt(function: Callable[[], dict[str, Any]], default: dict[str, Any]) -> dict[str, Any]:
    """The result of a recorder's function; a recorder that fails must not end the program."""
    try:
        return function()
    except Exception as error:
        warn(f"the recorder failed: {_one_line(error)}")
        return default


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
