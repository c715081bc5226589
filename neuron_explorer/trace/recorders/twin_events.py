"""The Python recorder's events: interning, backward nodes, ranges, failure."""

from __future__ import annotations

import os
import struct
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_explorer.trace import spool
from neuron_explorer.trace.collective_facts import operation_of
from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.recorders.twin_collectives import TwinCollectives
from neuron_explorer.trace.recorders.twin_signature import argument_values, describe, key_of
from neuron_explorer.trace.recorders.twin_stacks import StackInterner, Walk

__all__ = ["ThreadEvents", "TwinSpool"]

MAX_SIGNATURES = 1 << 18
# Signatures of one operator before floats are left out: a learning rate changes each step.
MANY_FLOATS = 64
_NO_WALK = Walk(0, 0, 0, False)
_MAX_SEQUENCE = (1 << 63) - 1
_TENSOR = struct.Struct("<IHHQQQ")  # as spool.TENSOR

_TRACE_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class TwinSpool:
    """What the threads of one recording share."""

    def __init__(self, directory: Path, *, stacks: bool, shapes: bool, tensors: bool, use_map: bool) -> None:
        self.stacks, self.shapes, self.tensors = stacks, shapes, tensors
        self.writer = spool.SpoolWriter(directory, role="main", name="main", use_map=use_map)
        self.threads: list[ThreadEvents] = []
        self.dropped = 0
        self.signatures_capped = 0
        self.stacks_truncated = 0
        self.interner = StackInterner(
            self.writer,
            module_code=torch_private.module_call_code(),
            engine_code=torch_private.engine_code(),
        )
        self.current_node = torch_private.current_autograd_node()
        self.peek = torch_private.sequence_number()
        self.collectives = TwinCollectives()
        self._failure_told = False
        self._lock = threading.Lock()
        self._signatures: dict[Any, int] = {}
        self._float_signatures: dict[int, int] = {}

    def thread(self) -> ThreadEvents:
        """The events of the calling thread, from its first event on."""
        with self._lock:
            events = ThreadEvents(self)
            self.threads.append(events)
        return events

    def stopped(self) -> bool:
        """Whether a failure (a full disk) has ended the recording; says so once."""
        reason = self.writer.failed
        if reason is None:
            return False
        if not self._failure_told:
            self._failure_told = True
            print(
                f"neuron-explorer: recording stopped: {reason}. The program goes on; what was recorded "
                "until now is kept.",
                file=sys.stderr,
            )
        self.dropped += 1
        return True

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
        found = self.writer.signature(text.shapes, text.strides, text.dtypes, text.arguments, text.device)
        self._signatures[key] = found
        return found

    def counters(self, tracing_ops: int) -> dict[str, Any]:
        """As the native recorder's."""
        return {
            "events": sum(t.count for t in self.threads),
            "tracing_ops": tracing_ops,
            "dropped": self.dropped,
            "signatures_capped": self.signatures_capped,
            "stacks_truncated": self.stacks_truncated,
            "late_ends": self.writer.late_ends,
            "threads": len(self.threads),
            "failed": self.writer.failed,
        }

    def close(self, tracing_ops: int) -> None:
        """End every open backward node and write the counters."""
        for thread in self.threads:
            thread.close()
        self.writer.close({**self.counters(tracing_ops), "reason_stopped": self.writer.failed})

    def abandon(self) -> None:
        """In a forked child: close the descriptors, write nothing."""
        for thread in self.threads:
            thread.abandon()
        self.writer.abandon()


@dataclass
class _Waiting:
    """An event that happened inside the recorder."""

    kind: int
    name: str
    start: int
    end: int
    seq: int = -1
    aux: int = 0


@dataclass
class _Node:
    """The backward node that runs: known by name and number, never by reference."""

    index: int
    key: tuple[str, int]
    last_end: int


class ThreadEvents:
    """The events of one thread."""

    def __init__(self, shared: TwinSpool) -> None:
        self._shared = shared
        self._logical = torch_private.logical_thread_id()
        os_thread = threading.get_native_id()
        name = "main thread" if os_thread == os.getpid() else threading.current_thread().name
        self._file = shared.writer.thread(os_thread=os_thread, logical=self._logical, name=name)
        self._tensors = -1
        if shared.tensors:
            path = shared.writer.directory / f"t{self._file.sequence}.tensors"
            self._tensors = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._node: _Node | None = None
        self._open_operators = 0
        self._ranges: list[int] = []
        # Python code of the recorder may trigger a garbage collection, whose event must not
        # be written into a table or a record that is half done: it waits.
        self._busy = False
        self._waiting: list[_Waiting] = []
        self._last_sequence = shared.peek()
        self._collective: tuple[int, ...] = ()  # the record of the collective or wait that runs
        self.last_collective = -1  # thread << 32 | record
        self.count = 0

    # Operators -------------------------------------------------------------------------

    def open_operator(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Begin an operator; returns its token, -1 when recording has stopped."""
        shared = self._shared
        if shared.stopped():
            return -1
        self._busy = True
        try:
            walk = self._walk()
            self._enter_node(walk)
            name_id = shared.writer.name(name, 0)
            values = argument_values(func, args, kwargs) if shared.shapes or shared.tensors else []
            number = shared.collectives.number(name, values) if "c10d" in name and not self._collective else None
            signature = shared.signature(name_id, values) if shared.shapes else 0
            # The mode runs below autograd, which has numbered this operator's node already: the
            # operator owns every number drawn since the one before it ended.
            sequence = self._last_sequence if number is None else number
            token = self._begin(spool.OP, name_id, walk, sequence, sig=signature)
            if number is not None:
                self._collective = (token,)
                if operation_of(name) and token >= 0:
                    self.last_collective = self._file.sequence << 32 | token
                    shared.collectives.under_way(values, self.last_collective)
            if token >= 0:
                self._open_operators += 1
                if self._tensors >= 0:
                    self._write_tensors(token, values)
            return token
        finally:
            self._busy = False

    def close_operator(self, token: int) -> None:
        """End an operator."""
        sequence = self._shared.peek()
        made = max(0, sequence - self._last_sequence)
        self._last_sequence = sequence
        now = time.monotonic_ns()
        self._busy = True
        try:
            if token >= 0:
                self._open_operators -= 1
                if self._collective == (token,):
                    made, self._collective = 0, ()  # its `seq` is no node's number
                self._file.end(token, now, aux=made)
            if self._node is not None:
                self._node.last_end = now
            self._write_waiting()
        finally:
            self._busy = False

    def skip_numbers(self) -> None:
        """Backward nodes made since the last operator belong to none that is recorded."""
        self._shared.collectives.rebase()
        self._last_sequence = self._shared.peek()

    # Ranges ----------------------------------------------------------------------------

    def open_range(self, kind: int, name: str, scope: int) -> int:
        """Begin a range; returns its token, -1 when recording has stopped."""
        shared = self._shared
        if self._busy:
            now = time.monotonic_ns()
            self._waiting.append(_Waiting(kind, name, now, now))
            return -1 - len(self._waiting)
        if shared.stopped():
            return -1
        self._busy = True
        try:
            self._leave_finished_node()
            token = self._begin(kind, shared.writer.name(name, scope), self._walk(), shared.peek())
            if token >= 0:
                self._ranges.append(token)
            return token
        finally:
            self._busy = False

    def close_range(self, token: int, seq: int = -1, aux: int = 0) -> None:
        """End the range ``token``."""
        if token < -1:
            position = -2 - token
            if position < len(self._waiting):
                waiting = self._waiting[position]
                waiting.end, waiting.seq, waiting.aux = time.monotonic_ns(), seq, aux
            return
        self._busy = True
        try:
            self._leave_finished_node()
            if token in self._ranges:
                self._ranges.remove(token)
                now = time.monotonic_ns()
                self._file.end(token, now, aux=aux, seq=None if seq == -1 else seq)
                if self._node is not None:
                    self._node.last_end = now
            self._write_waiting()
        finally:
            self._busy = False

    def close_innermost_range(self) -> None:
        """End the range that began last; one that began before the recording is not there."""
        if self._ranges:
            self.close_range(self._ranges[-1])

    def add(self, kind: int, name: str, start: int, end: int, seq: int, aux: int, *, own_stack: bool) -> None:
        """Write a finished event."""
        shared = self._shared
        if shared.stopped():
            return
        self._busy = True
        try:
            self._leave_finished_node()
            walk = self._walk() if own_stack else _NO_WALK
            self._file.add(
                kind, shared.writer.name(name), start, end, seq=seq, aux=aux, stack=walk.stack,
                module=walk.module, own_stack=bool(walk.stack),
            )  # fmt: skip
            self.count += 1
        finally:
            self._busy = False

    def close(self) -> None:
        """End an open backward node and let go of the tensor file (the writer closes the other)."""
        self._leave_node()
        self.abandon()

    def abandon(self) -> None:
        """Close the tensor file."""
        if self._tensors >= 0:
            os.close(self._tensors)
            self._tensors = -1

    # Backward nodes --------------------------------------------------------------------

    def _enter_node(self, walk: Walk) -> None:
        """A backward node has no event of its own here: it lasts from its first to its last operator."""
        key = self._running_node()
        if key is None:
            self._leave_node()
            return
        if self._node is not None:
            if self._node.key == key:
                return
            self._leave_node()
        name, sequence = key
        if sequence > _MAX_SEQUENCE:
            sequence = -1
        # The node was called from backward(); deeper frames are those of hooks and custom functions.
        outer = Walk(walk.engine_stack or walk.stack, 0, 0, walk.cut)
        index = self._begin(spool.AUTOGRAD, self._shared.writer.name(name, 1), outer, sequence, aux=self._logical)
        if index >= 0:
            self._node = _Node(index, key, time.monotonic_ns())

    def _running_node(self) -> tuple[str, int] | None:
        """Name and number: never the node itself, which would keep the saved tensors alive."""
        node = self._shared.current_node()
        if node is None:
            return None
        try:
            return node.name(), node._sequence_nr()
        except AttributeError:
            return type(node).__name__, -1

    def _leave_finished_node(self) -> None:
        if self._node is not None and self._running_node() != self._node.key:
            self._leave_node()

    def _leave_node(self) -> None:
        if self._open_operators:
            return  # what happens inside an operator of the node is inside the node
        node, self._node = self._node, None
        if node is not None:
            self._file.end(node.index, node.last_end)

    # Records ---------------------------------------------------------------------------

    def _begin(self, kind: int, name: int, walk: Walk, sequence: int, *, aux: int = 0, sig: int = 0) -> int:
        if walk.cut:
            self._shared.stacks_truncated += 1
        self._write_waiting()
        index = self._file.begin(
            kind, name, time.monotonic_ns(), seq=sequence, aux=aux, stack=walk.stack, sig=sig,
            module=walk.module, own_stack=bool(walk.stack), flags=spool.STACK_CUT if walk.cut else 0,
        )  # fmt: skip
        self.count += index >= 0
        return index

    def _write_waiting(self) -> None:
        while self._waiting:  # writing may collect garbage too
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._file.add(
                    event.kind, self._shared.writer.name(event.name), event.start, event.end,
                    seq=event.seq, aux=event.aux,
                )  # fmt: skip
                self.count += 1

    def _walk(self) -> Walk:
        if not self._shared.stacks:
            return _NO_WALK
        return self._shared.interner.walk(_outside_recorder(sys._getframe(1)))

    def _write_tensors(self, index: int, values: list[Any]) -> None:
        import torch

        data = b""
        for argument, value in enumerate(values):
            for position, tensor in enumerate(value if isinstance(value, list | tuple) else (value,)):
                if type(tensor) in (torch.Tensor, torch.nn.Parameter):
                    storage, version = torch_private.storage_and_version(tensor)
                    offset = tensor.storage_offset() + 1 if storage else 0
                    data += _TENSOR.pack(index, argument, position, storage, version, offset)
        try:
            if data:
                os.write(self._tensors, data)
        except OSError as error:
            self._shared.writer.fail(error)


def _outside_recorder(frame: Any) -> Any:
    # The frames between the program's call and this one are the recorder's own.
    while frame is not None and frame.f_code.co_filename.startswith(_TRACE_PACKAGE):
        frame = frame.f_back
    return frame
