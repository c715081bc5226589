"""Hand-built traces of an asynchronous device: lanes of streams beside the host's."""

from __future__ import annotations

from synthetic import GC_LANE, MAIN, OTHER, STEPS_LANE, event, lane, memory_trace

STREAM, COMM = 10, 11
DEVICE = {"type": "cuda", "name": "an accelerator", "emulated": False}


def stream_lane(number: int, stream: int, **changes):
    """A lane of a stream."""
    return lane(number, "device", f"cuda:0 stream {stream}") | {"device": "cuda:0", "stream": stream} | changes


LANES = [
    lane(MAIN, "thread", "main thread"),
    lane(STEPS_LANE, "steps", "steps"),
    lane(GC_LANE, "gc", "garbage collector"),
    lane(OTHER, "thread", "autograd thread"),
    stream_lane(STREAM, 7),
    stream_lane(COMM, 20),
]


def kernel(start: int, duration: int, name: str = "gemm", lane: int = STREAM, kind: str = "device", **columns):
    """An execution on a stream."""
    return event(name, start, duration, kind=kind, lane=lane, **columns)


def device_trace(events, steps=(), **changes):
    """A trace in memory of a device with two streams."""
    return memory_trace(events, steps, **{"device": DEVICE, "lanes": LANES} | changes)
