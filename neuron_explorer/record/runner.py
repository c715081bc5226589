"""Runs a program under ``profile()`` in this process, as the interpreter would.

The recording starts when the program imports torch and ends when the interpreter exits,
after the program's threads and ``atexit`` handlers. A program that is killed leaves a
spool, which ``neuron-explorer recover`` turns into a trace.
"""

from __future__ import annotations

import atexit
import os
import shlex
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.neuron.emulator import EmulatorError, enable, refuse_to_replace
from neuron_explorer.neuron.emulator.package_first import offer_package
from neuron_explorer.record import children, ranks
from neuron_explorer.record.on_import import when_imported
from neuron_explorer.record.plan import RunPlan
from neuron_explorer.record.program import Program, ProgramError, load_module, load_script, replace_main
from neuron_explorer.trace.environment import rank_and_world_size, restart_count
from neuron_explorer.trace.output import check_output, make_directory, make_part, output_path, spool_path
from neuron_explorer.trace.session import disabled

_OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def run_recorded(plan: RunPlan) -> int:
    """Run the program of ``plan`` as ``__main__``; returns its exit code.

    Raises :class:`~neuron_explorer.errors.OutputError` before the program starts when the
    trace cannot be written, and :class:`~neuron_explorer.neuron.emulator.EmulatorError` when
    the device that was asked for cannot be emulated.
    """
    recording = Launching(plan) if ranks.is_launcher(plan) else Recording(plan)
    # First in, last out: the program's own handlers are recorded too.
    atexit.register(recording.finish)
    when_imported("torch", recording.start)
    main = replace_main()
    try:
        load = load_module if plan.is_module else load_script
        program = load(main, plan.target, plan.arguments)
        recording.program_started = True
        _execute(program)
    except SystemExit as stop:
        return _exit_code(stop)
    except (ProgramError, EmulatorError):
        raise
    except BaseException as error:
        _report(error)
        recording.interrupted = isinstance(error, KeyboardInterrupt)
        return 1
    return 0


def record_this_process(plan: RunPlan) -> None:
    """Record a process whose program Python is about to start, until it ends.

    Raises :class:`~neuron_explorer.errors.OutputError` when the trace cannot be written.
    """
    recording = Recording(plan)
    atexit.register(recording.finish)
    when_imported("torch", recording.start)


def _execute(program: Program) -> None:
    exec(program.code, program.main.__dict__)


class Recording:
    """The recording of one run: begun by the import of torch, ended by the exit."""

    def __init__(self, plan: RunPlan) -> None:
        # Absolute, because programs change directory.
        self._given = ranks.given_output(plan)
        self._rank, self._world_size = rank_and_world_size()
        self.output = output_path(self._given, self._rank, self._world_size, restart_count())
        self._check(plan)
        if plan.emulate:
            refuse_to_replace()
            offer_package()
        self._plan = plan
        self._shown = _relative(self.output)
        self.program_started = False
        self.interrupted = False
        self._settings = {"overwrite": plan.overwrite, **plan.settings}
        self._profile: Any = None
        self._failed = False
        self._pid = os.getpid()

    def _check(self, plan: RunPlan) -> None:
        make_directory(self._given)
        make_part(self.output)
        check_output(self.output, overwrite=plan.overwrite)

    def start(self) -> None:
        """Begin to record. A failure is said, and the program goes on."""
        import neuron_explorer

        if self._plan.emulate:
            self._start_emulation()
        try:
            profile = neuron_explorer.profile(self._given, **self._settings)
            profile.says_where = False
            profile.start()
        except (NeuronExplorerError, ValueError) as error:
            self._failed = True
            who = f"rank {self._rank}" if self._plan.launched else "this run"
            _say(f"{who} is not recorded: {error}")
            return
        self._profile = profile
        if not disabled():
            children.announce(spool_path(self.output))
            if self._world_size == 1 and not self._plan.launched:
                children.announce_ranks(ranks.plan_for_ranks(self._plan))

    def _start_emulation(self) -> None:
        try:
            enable()
        except EmulatorError:
            self._failed = True  # the program ends here, having asked for the device
            raise
        children.announce_emulation()

    def finish(self) -> None:
        """End the recording and write the trace; forked children have no part in it."""
        if os.getpid() != self._pid:
            return
        try:
            self._write()
        finally:
            if self.interrupted:
                # As the interpreter ends after a KeyboardInterrupt: killed by SIGINT.
                sys.stdout.flush()
                sys.stderr.flush()
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGINT)

    def _write(self) -> None:
        children.withdraw()
        if self._profile is None:
            if self.program_started and not self._failed:
                _say("the program never imported torch; no trace was written")
            return
        if disabled():
            _say("recording is off (NEURON_EXPLORER_DISABLE is set); no trace was written")
            return
        self._profile.stop()  # nothing to do where the session's own handler came first
        if self._profile.result is not None and self._rank == 0 and not self._plan.launched:
            events = self._profile.result.events
            of = f", rank 0 of {self._world_size}; each writes its own" if self._world_size > 1 else ""
            look = f"nxplorer serve {shlex.quote(self._shown)}"
            _say(f"wrote {self._shown}: {events:,} events{of}; look at it with: {look}")


class Launching(Recording):
    """The run of a launcher: its ranks are recorded, it is not."""

    def _check(self, plan: RunPlan) -> None:
        self._launch = ranks.Launch(plan, _relative)

    def start(self) -> None:
        """Let the ranks, which the launcher starts, record themselves."""
        if self._plan.emulate:
            self._start_emulation()  # builds the device once, not in every rank
        if not disabled():
            children.announce_ranks(ranks.plan_for_ranks(self._plan))

    def _write(self) -> None:
        children.withdraw()
        if disabled():
            _say("recording is off (NEURON_EXPLORER_DISABLE is set); no trace was written")
        elif self.program_started and not self._failed:
            for line in self._launch.report():
                _say(line)


def _relative(path: Path) -> str:
    """``path`` as it is typed in the directory that the program was started in."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown


def _exit_code(stop: SystemExit) -> int:
    """What the interpreter makes of ``sys.exit(argument)``."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _report(error: BaseException) -> None:
    """Print ``error`` as the interpreter would: through the hook, from the program's frame."""
    traceback = _without_own_frames(error.__traceback__)
    error.__traceback__ = traceback
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    sys.excepthook(type(error), error, traceback)


def _without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(file)) != _OWN_DIRECTORY:
            return traceback
        traceback = traceback.tb_next
    return None


def _say(text: str) -> None:
    print(f"neuron-explorer: {text}", file=sys.stderr)
