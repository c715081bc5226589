"""The recorder in Python, for machines where the native one cannot be built.

A dispatch mode: it sees the operators that reach the dispatcher below autograd on the
thread that started it, at about 16 µs each. Its limits are named in `capabilities`.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from neuron_explorer.trace.notices import warn
from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.recorders.backend import DATA_WAIT, RANGE, SYNC
from neuron_explorer.trace.recorders.twin_events import ThreadEvents, TwinSpool

__all__ = ["TwinBackend"]

_OWN_STACK_KINDS = frozenset({RANGE, SYNC, DATA_WAIT})
_ENTER = "profiler::_record_function_enter"
_EXIT = "profiler::_record_function_exit"


class TwinBackend:
    """See :class:`neuron_explorer.trace.recorders.backend.Backend`."""

    name = "twin"

    def __init__(self) -> None:
        self._active = False
        self._mode: Any = None
        self._spool: TwinSpool | None = None
        self._local = threading.local()
        self._thread = 0
        self._pid = 0
        self._tracing_ops = 0
        self._final: dict[str, Any] = {}

    def start(
        self, directory: Path, *, stacks: bool, shapes: bool, tensors: bool, use_map: bool, memory: bool = False
    ) -> None:
        """Create the process's spool below ``directory`` and observe this thread from here on; never ``memory``."""
        if memory:
            warn("memory is not recorded: the recorder in Python does not hear the allocators")
        self._pid = os.getpid()
        self._spool = TwinSpool(directory, stacks=stacks, shapes=shapes, tensors=tensors, use_map=use_map)
        self._thread = threading.get_ident()
        self._is_tracing = torch_private.tracing_mode_active()
        self._active = True
        self._events()  # before the first operator draws a number for its backward node
        self._mode = _make_mode(self)
        self._mode.__enter__()

    def pause(self) -> None:
        """Record nothing; the mode stays, as an empty shell."""
        self._active = False

    def resume(self) -> None:
        """Record again."""
        self._active = self._spool is not None
        events = self._events()
        if events is not None:
            events.skip_numbers()

    def stop(self) -> dict[str, Any]:
        """End the recording."""
        self._active = False
        self._leave_mode()
        spool, self._spool = self._spool, None
        if spool is None:
            return self._final
        if os.getpid() != self._pid:
            spool.abandon()
            return {}
        spool.close(self._tracing_ops)
        self._final = spool.counters(self._tracing_ops)
        return self._final

    def add(self, kind: int, name: str, start_ns: int, end_ns: int, seq: int = -1, aux: int = 0) -> None:
        """Record a finished event of the calling thread."""
        events = self._events() if self._active else None
        if events is not None:
            events.add(kind, name, start_ns, end_ns, seq, aux, own_stack=kind in _OWN_STACK_KINDS)

    def begin(self, kind: int, name: str) -> int:
        """Open a range on the calling thread."""
        events = self._events() if self._active else None
        return -1 if events is None else events.open_range(kind, name, 255)

    def end(self, token: int, seq: int = -1, aux: int = 0) -> None:
        """Close a range."""
        events = self._events()
        if events is not None and token >= 0:
            events.close_range(token, seq, aux)

    def collective(self) -> int:
        """The last collective that began on the calling thread, thread << 32 | record; -1 when none."""
        events = self._events() if self._active else None
        return -1 if events is None else events.last_collective

    def stats(self) -> dict[str, Any]:
        """Live counters."""
        return self._final if self._spool is None else self._spool.counters(self._tracing_ops)

    @staticmethod
    def now() -> int:
        """CLOCK_MONOTONIC nanoseconds."""
        return time.monotonic_ns()

    def _events(self) -> ThreadEvents | None:
        spool = self._spool
        if spool is None or os.getpid() != self._pid:
            return None
        events = getattr(self._local, "events", None)
        if events is None:
            events = self._local.events = spool.thread()
        return events

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator for the mode, and record it."""
        if not self._active:
            return func(*args, **kwargs)
        if self._is_tracing():
            self._tracing_ops += 1
            return func(*args, **kwargs)
        events = self._events()
        if events is None:
            return func(*args, **kwargs)
        name = _name_of(func)
        if name.startswith("profiler::"):
            return self._run_range(events, name, func, args, kwargs)
        if name == "aten::_local_scalar_dense" and isinstance(args[0], int | float | complex):
            # TorchScript asks for the value of a number that the mode was handed unwrapped.
            return args[0]
        try:
            token = events.open_operator(name, func, args, kwargs)
        except Exception as error:
            self._give_up(error)
            return func(*args, **kwargs)
        try:
            return func(*args, **kwargs)
        finally:
            try:
                events.close_operator(token)
            except Exception as error:
                self._give_up(error)

    def _run_range(
        self, events: ThreadEvents, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """`record_function` is two operators; what lies between them is a range."""
        result = func(*args, **kwargs)
        try:
            if name.startswith(_ENTER):
                events.open_range(RANGE, args[0] if args and isinstance(args[0], str) else "range", 3)
            elif name.startswith(_EXIT):
                events.close_innermost_range()
        except Exception as error:
            self._give_up(error)
        return result

    def _give_up(self, error: Exception) -> None:
        """A fault of the recorder ends the recording, never the program."""
        self._active = False
        warn(f"the recorder stopped: {type(error).__name__}: {error}. The program goes on.")

    def _leave_mode(self) -> None:
        mode, self._mode = self._mode, None
        if mode is None or threading.get_ident() != self._thread:
            return  # another thread's stack of modes is out of reach; the empty shell stays there
        if torch_private.top_dispatch_mode() is mode:
            mode.__exit__(None, None, None)


def _name_of(func: Any) -> str:
    name = getattr(func, "name", None)
    return name() if callable(name) else str(func)


def _make_mode(backend: TwinBackend) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class NeuronExplorerMode(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            # Else torch.compile is switched off, silently, and stays off.
            return True

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Hidden below in a way that does not import torch._dynamo into the program.
            return not torch_private.can_hide_from_dynamo()

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return backend.dispatch(func, args, kwargs or {})

    torch_private.hide_from_dynamo(NeuronExplorerMode.__torch_dispatch__)
    return NeuronExplorerMode()
