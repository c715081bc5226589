"""A builder of tiny recordings whose right trace can be worked out on paper."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from neuron_explorer.trace import spool
from neuron_explorer.trace.convert import convert
from neuron_explorer.trace.store import load

_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)

START = 1_000_000
TORCH = "/usr/lib/python3/site-packages/torch"
PROJECT = "/project"


class Recording:
    """A spool under construction. Times given to it are ns since the recording's start."""

    def __init__(self, directory: Path, **session) -> None:
        self.spool = directory / "t.parquet.spool"
        self.output = directory / "t.parquet"
        self.writers: list[spool.SpoolWriter] = []
        self.session = {
            "output": "t.parquet", "start_unix_ns": 1_700_000_000_000_000_000, "start_monotonic_ns": START,
            "pid": 100, "rank": 0, "world_size": 1, "settings": {"stacks": True, "source": "all"},
            "versions": {"python": "3.11", "torch": "2.13", "neuron_explorer": "0"},
            "device": {"type": "cpu", "name": "cpu", "emulated": False}, "cwd": PROJECT,
            "user_code": {"include": None, "exclude": ["/usr/lib/python3/site-packages", TORCH]},
            "script": "train.py", "recorder": "native", "recorder_reason": "", "capabilities": {},
            **session,
        }  # fmt: skip
        spool.write_session(self.spool, self.session)

    def process(self, pid=100, role="main", start=0, **more) -> Process:
        """A process of the recording."""
        writer = spool.SpoolWriter(
            self.spool, pid=pid, role=role, parent_pid=1, start_ns=START + start, chunk_bytes=4096, **more
        )
        self.writers.append(writer)
        return Process(writer)

    def close(self, **control) -> None:
        """Finish every process."""
        for writer in self.writers:
            writer.close(control)

    def convert(self, **options):
        """The result of the conversion."""
        self.close()
        return convert(self.spool, self.output, **options)

    def trace(self, **options):
        """The converted recording, opened."""
        self.convert(**options)
        return load(self.output)

    def rows(self, columns, **options) -> list[dict]:
        """Chosen columns of every event, by start."""
        with self.trace(**options) as trace:
            return trace.read(columns.split()).to_pylist()


class Process:
    def __init__(self, writer: spool.SpoolWriter) -> None:
        self.writer = writer

    def thread(self, logical=1, name="", os_thread=0) -> Thread:
        return Thread(self.writer, self.writer.thread(os_thread=os_thread, logical=logical, name=name))

    def stack(self, *frames) -> int:
        """A stack, outermost frame first: "file:line" or "file:line:function"."""
        node = 0
        for frame in frames:
            file, line, *function = frame.split(":")
            name = function[0] if function else "f"
            file = file if file.startswith(("/", "<")) else f"{PROJECT}/{file}"
            node = self.writer.frame(node, self.writer.code(file, name, 1), int(line))
        return node


class Thread:
    """Events are given as (name, start, end) and nest like `with` blocks."""

    def __init__(self, writer: spool.SpoolWriter, events: spool.ThreadEvents) -> None:
        self.writer, self.events = writer, events

    def __call__(self, name, start, end, *, kind=spool.OP, aux=None, **more) -> Event:
        if "stack" in more:
            more.setdefault("own_stack", bool(more["stack"]))
        return Event(self, name, start, end, kind, aux, more)

    def node(self, name, start, end, *, forward=1, seq=-1, **more) -> Event:
        """An autograd node made by number ``seq`` of logical thread ``forward``."""
        return self(name, start, end, kind=spool.AUTOGRAD, aux=forward, seq=seq, **more)

    def op(self, name, start, end, **more) -> int:
        """An event without children."""
        with self(name, start, end, **more) as event:
            return event.index

    def add(self, kind, name, start, end, **more) -> int:
        """A finished event."""
        return self.events.add(kind, self.writer.name(name), START + start, START + end, **more)

    def mark(self, kind, at, seq=-1) -> None:
        """A step, pause, resume or window mark."""
        self.add(kind, {spool.STEP: "step"}.get(kind, "mark"), at, at, seq=seq)


class Event:
    def __init__(self, thread, name, start, end, kind, aux, more) -> None:
        self.thread, self.start, self.end, self.aux = thread, start, end, aux
        number = thread.writer.name(name)
        first = aux if kind == spool.AUTOGRAD and aux is not None else 0
        self.index = thread.events.begin(kind, number, START + start, aux=first, **more)
        self.drawn = aux if kind != spool.AUTOGRAD else None

    def __enter__(self) -> Event:
        return self

    def __exit__(self, *_: object) -> None:
        if self.end is not None:
            self.thread.events.end(self.index, START + self.end, aux=self.drawn)


@pytest.fixture
def recording(tmp_path):
    made: list[Recording] = []

    def make(**session) -> Recording:
        made.append(Recording(tmp_path / f"r{len(made)}", **session))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def simple(recording):
    """A recording with one process and one thread."""
    one = recording()
    process = one.process()
    return one, process, process.thread(name="main")
