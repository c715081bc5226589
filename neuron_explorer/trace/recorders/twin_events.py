"""The Python recorder's view of one process's spool: interning, nesting, failure."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.recorders.twin_files import (
    NO_INDEX,
    EventsFile,
    TablesFile,
    create_process_directory,
    write_json,
)
from neuron_explorer.trace.recorders.twin_signature import argument_values, describe, key_of
from neuron_explorer.trace.recorders.twin_stacks import StackInterner, Walk

__all__ = ["ThreadEvents", "TwinSpool"]

OP, AUTOGRAD = 1, 2
OWN_STACK, STACK_CUT = 1, 4
MAX_SIGNATURES = 1 << 18
MANY_FLOATS = 64  # signatures of one operator before floats are left out: a learning rate changes each step
_NO_WALK = Walk(0, 0, 0, False)
_MAX_SEQUENCE = (1 << 63) - 1


class TwinSpool:
    """What the threads of one recording share."""

    def __init__(self, directory: Path, *, stacks: bool, shapes: bool, tensors: bool, use_map: bool) -> None:
        del use_map  # nothing is mapped here
        self.stacks, self.shapes, self.tensors = stacks, shapes, tensors
        self.directory = create_process_directory(directory)
        self.tables = TablesFile(self.directory)
        self.failed: str | None = None
        self.dropped = 0
        self.signatures_capped = 0
        self.stacks_truncated = 0
        self.threads: list[ThreadEvents] = []
        self._lock = threading.Lock()
        self._names: dict[tuple[str, int], int] = {}
        self._signatures: dict[Any, int] = {}
        self._float_signatures: dict[int, int] = {}
        self.interner = StackInterner(
            self.tables,
            module_code=torch_private.module_call_code(),
            engine_code=torch_private.engine_code(),
        )
        self.current_node = torch_private.current_autograd_node()
        self.peek = torch_private.sequence_number()

    def thread(self) -> ThreadEvents | None:
        """The events of the calling thread, from its first event on."""
        if self.failed is not None:
            return None
        try:
            with self._lock:
                events = ThreadEvents(self, len(self.threads))
                self.threads.append(events)
            return events
        except OSError as error:
            self.fail(error)
            return None

    def fail(self, error: OSError) -> None:
        """Stop recording; the program goes on."""
        if self.failed is None:
            self.failed = error.strerror or str(error)
            print(
                f"neuron-explorer: recording stopped: {self.failed}. The program goes on; what was recorded "
                "until now is kept.",
                file=sys.stderr,
            )

    def name(self, text: str, scope: int) -> int:
        """The id of a name."""
        key = (text, scope)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self.tables.name(text[:4096], scope)
        return found

    def signature(self, name: int, values: list[Any]) -> int:
        """The id of a signature; 0 when there are too many."""
        many = self._float_signatures.get(name, 0)
        floats = many < MANY_FLOATS
        key = (name, floats, tuple([key_of(v, floats) for v in values]))
        found = self._signatures.get(key)
        if found is not None:
            return found
        if len(self._signatures) >= MAX_SIGNATURES:
            self.signatures_capped += 1
            return 0
        if any(isinstance(v, float) for v in values):
            self._float_signatures[name] = many + 1
        text = describe(values, floats)
        found = self.tables.signature(text.shapes, text.strides, text.dtypes, text.arguments, text.device)
        self._signatures[key] = found
        return found

    def counters(self, tracing_ops: int) -> dict[str, Any]:
        """As the native recorder's."""
        return {
            "events": sum(t.file.count for t in self.threads),
            "tracing_ops": tracing_ops,
            "dropped": self.dropped,
            "signatures_capped": self.signatures_capped,
            "stacks_truncated": self.stacks_truncated,
            "late_ends": 0,
            "threads": len(self.threads),
            "failed": self.failed,
        }

    def close(self, tracing_ops: int) -> None:
        """End every open backward node and write the counters."""
        for thread in self.threads:
            thread.close()
        self.tables.close()
        try:
            counters = self.counters(tracing_ops)
            write_json(self.directory / "control.json", {**counters, "reason_stopped": counters["failed"]})
        except OSError as error:
            self.fail(error)

    def abandon(self) -> None:
        """In a forked child: close the descriptors, write nothing."""
        for thread in self.threads:
            thread.file.close()
        self.tables.close()


@dataclass
class _Open:
    """An event that has begun. ``range`` tells ranges from operators and backward nodes."""

    index: int
    start: int
    children: int
    kind: int
    is_range: bool
    key: Any = None
    last_end: int = 0


class ThreadEvents:
    """The events of one thread."""

    def __init__(self, spool: TwinSpool, number: int) -> None:
        self._spool = spool
        os_thread, logical = threading.get_native_id(), torch_private.logical_thread_id()
        self._logical = logical
        name = "main thread" if os_thread == os.getpid() else threading.current_thread().name
        self.file = EventsFile(spool.directory, number, os_thread, logical, tensors=spool.tensors)
        spool.tables.thread(number, os_thread, logical, name)
        self._open: list[_Open] = []
        self._last_sequence = spool.peek()

    # Operators -------------------------------------------------------------------------

    def open_operator(
        self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Open | None:
        """Begin an operator; None when recording has stopped."""
        spool = self._spool
        if spool.failed is not None:
            spool.dropped += 1
            return None
        try:
            walk = self._walk(3)
            self._enter_node(walk)
            name_id = spool.name(name, 0)
            values = argument_values(func, args, kwargs) if spool.shapes or spool.tensors else []
            signature = spool.signature(name_id, values) if spool.shapes else 0
            # The mode runs below autograd, which has numbered this operator's node already.
            sequence = self._last_sequence
            opened = self._begin(OP, name_id, walk, sequence, 0, signature, is_range=False)
            if spool.tensors:
                self._write_tensors(opened.index, values)
            return opened
        except OSError as error:
            spool.fail(error)
            return None

    def close_operator(self, opened: _Open | None) -> None:
        """End an operator."""
        if opened is None:
            return
        sequence = self._spool.peek()
        made = max(0, sequence - self._last_sequence)
        self._last_sequence = sequence
        self._finish(opened, time.monotonic_ns(), aux=made)

    # Ranges ----------------------------------------------------------------------------

    def open_range(self, kind: int, name: str, scope: int, *, skip_frames: int) -> int:
        """Begin a range; returns its token, -1 when recording has stopped."""
        spool = self._spool
        if spool.failed is not None:
            return -1
        try:
            self._leave_node()
            walk = self._walk(skip_frames + 1)
            sequence = spool.peek()
            return self._begin(kind, spool.name(name, scope), walk, sequence, 0, 0, is_range=True).index
        except OSError as error:
            spool.fail(error)
            return -1

    def close_range(self, token: int, seq: int = -1, aux: int = 0) -> None:
        """End the range ``token``."""
        self._leave_node()
        for opened in reversed(self._open):
            if opened.index == token:
                self._finish(opened, time.monotonic_ns(), seq=None if seq == -1 else seq, aux=aux)
                return

    def close_innermost_range(self) -> None:
        """End the range that began last; one that began before the recording is not there."""
        self._leave_node()
        for opened in reversed(self._open):
            if opened.is_range:
                self._finish(opened, time.monotonic_ns())
                return

    def add(self, kind: int, name: str, start: int, end: int, seq: int, aux: int, *, own_stack: bool) -> None:
        """Write a finished event."""
        spool = self._spool
        if spool.failed is not None:
            return
        try:
            walk = self._walk(2) if own_stack else _NO_WALK
            opened = self._begin(kind, spool.name(name, 255), walk, seq, aux, 0, is_range=False, start=start)
            self._finish(opened, end, aux=aux)
        except OSError as error:
            spool.fail(error)

    def close(self) -> None:
        """End an open backward node and close the file."""
        self._leave_node()
        self.file.close()

    # Backward nodes --------------------------------------------------------------------

    def _enter_node(self, walk: Walk) -> None:
        """A backward node has no event of its own here: it lasts from its first to its last operator."""
        node = self._spool.current_node()
        current = self._open[-1] if self._open and self._open[-1].kind == AUTOGRAD else None
        if node is None:
            if current is not None:
                self._leave_node()
            return
        try:
            name, sequence = node.name(), node._sequence_nr()
        except AttributeError:
            name, sequence = type(node).__name__, -1
        # Never the node itself: it would keep the saved tensors alive.
        key = (name, sequence)
        if current is not None:
            if current.key == key:
                return
            self._leave_node()
        if sequence > _MAX_SEQUENCE:
            sequence = -1
        # The node was called from backward(); deeper frames are those of hooks and custom functions.
        outer = Walk(walk.engine_stack or walk.stack, 0, 0, walk.cut)
        opened = self._begin(
            AUTOGRAD, self._spool.name(name, 1), outer, sequence, self._logical, 0, is_range=False
        )
        opened.key = key

    def _leave_node(self) -> None:
        if self._open and self._open[-1].kind == AUTOGRAD:
            node = self._open[-1]
            self._finish(node, node.last_end or node.start)

    # Records ---------------------------------------------------------------------------

    def _begin(
        self, kind: int, name: int, walk: Walk, sequence: int, aux: int, signature: int, *, is_range: bool,
        start: int = 0,
    ) -> _Open:  # fmt: skip
        flags = (OWN_STACK if walk.stack else 0) | (STACK_CUT if walk.cut else 0)
        if walk.cut:
            self._spool.stacks_truncated += 1
        parent = self._open[-1] if self._open else None
        node = next((o.index for o in reversed(self._open) if o.kind == AUTOGRAD), NO_INDEX)
        start = start or time.monotonic_ns()
        index = self.file.append(
            start, name, kind, seq=sequence, stack=walk.stack, signature=signature, module=walk.module,
            parent=NO_INDEX if parent is None else parent.index, aux=aux, node=node, depth=len(self._open),
            flags=flags,
        )  # fmt: skip
        opened = _Open(index, start, 0, kind, is_range)
        self._open.append(opened)
        return opened

    def _finish(self, opened: _Open, end: int, *, seq: int | None = None, aux: int | None = None) -> None:
        end = max(end, opened.start)
        duration = end - opened.start
        position = next((i for i in range(len(self._open) - 1, -1, -1) if self._open[i] is opened), -1)
        if position < 0:
            return
        del self._open[position]
        if position > 0:
            parent = self._open[position - 1]
            parent.children += duration
            parent.last_end = end
        if self._spool.failed is not None:
            return
        try:
            self.file.finish(opened.index, end, max(0, duration - opened.children), seq=seq, aux=aux)
        except OSError as error:
            self._spool.fail(error)

    def _walk(self, skip: int) -> Walk:
        return (
            self._spool.interner.walk(_outside_package(sys._getframe(skip)))
            if self._spool.stacks
            else _NO_WALK
        )

    def _write_tensors(self, index: int, values: list[Any]) -> None:
        import torch

        for position, value in enumerate(values):
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter):
                    storage, version = torch_private.storage_and_version(tensor)
                    self.file.tensor(index, position, storage, version)


def _outside_package(frame: Any) -> Any:
    # The frames between the program's call and this one: the mode's, and torch's around it.
    while frame is not None and frame.f_code.co_filename in _OWN_FILES:
        frame = frame.f_back
    return frame


_HERE = os.path.dirname(os.path.abspath(__file__))
_OWN_FILES = frozenset(os.path.join(_HERE, f) for f in ("twin.py", "twin_events.py", "gc.py", "sync.py"))
