"""The parts of a trace, one after the other, each read while those before it are worked on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

_AHEAD: Final = 3


def read_parts(trace: Trace, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The parts in order; a few are read ahead."""
    parts = trace.parts(columns)
    if len(parts.readers) < 2:
        for read in parts.readers:
            yield read()
        return
    waiting: deque[Future[pa.Table]] = deque()
    with ThreadPoolExecutor(1 if parts.in_order else min(4, os.cpu_count() or 1, len(parts.readers))) as pool:
        for read in parts.readers:
            waiting.append(pool.submit(read))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
