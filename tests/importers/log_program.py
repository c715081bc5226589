"""A program whose compilations have known answers; ``make_logs.py`` records its TORCH_TRACE logs.

    TORCH_TRACE=DIR python log_program.py BACKEND [PART ...]
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

BACKEND = "aot_eager"


def scale(x, k):
    y = x * k
    return y.sum()


def breaks(x):
    y = x + 1
    print("middle")
    z = y * 2
    if z.sum() > 0:
        z = z + 1
    return z


def curve(x):
    return x.cos()


def shift(x):
    return x.exp() + 2


def refused(x):
    return x.tan()


def never(x):
    return x.sinh()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, **{"backend": BACKEND, **options})


def recompiles() -> None:
    """0/0, then sizes, a dtype and a value: 0/1 to 0/7, then the limit."""
    call = compiled(scale, dynamic=False)
    call(torch.ones(4), 2.0)
    call(torch.ones(5), 2.0)
    call(torch.ones(4, dtype=torch.float64), 2.0)
    call(torch.ones(4), 3.0)
    for size in (10, 11, 12, 13, 14, 15):
        call(torch.ones(size), 2.0)


def graph_breaks() -> None:
    """A call that cannot be traced (with a restart), and a branch on data."""
    compiled(breaks)(torch.ones(3))


def training() -> None:
    """Forward, lazily compiled backward, then an input without gradients."""
    call = compiled(Net())
    call(torch.ones(2, 4, requires_grad=True)).sum().backward()
    call(torch.ones(2, 4))


def failure() -> None:
    """A backend that raises."""

    def backend(graph: Any, inputs: Any) -> Any:
        raise RuntimeError("this backend refuses")

    try:
        compiled(refused, backend=backend)(torch.ones(3))
    except Exception as error:
        print(type(error).__name__)


def caches() -> None:
    """The same graph three times over: a miss, then hits."""
    for _ in range(3):
        torch._dynamo.reset()
        compiled(curve)(torch.ones(3))


def threads() -> None:
    """Two threads compile."""
    workers = [threading.Thread(target=compiled(f), args=(torch.ones(4),)) for f in (curve, shift)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def compiled_autograd() -> None:
    """A backward pass captured as a graph."""
    with torch._dynamo.utils.maybe_enable_compiled_autograd(True):
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()


def killed() -> None:
    """The process ends inside its backend."""
    compiled(never, backend=lambda graph, inputs: os._exit(0))(torch.ones(3))


PARTS: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (recompiles, graph_breaks, training, failure, caches, threads, compiled_autograd, killed)
}


if __name__ == "__main__":
    BACKEND = sys.argv[1]
    for part in sys.argv[2:] or ("recompiles", "graph_breaks", "training", "failure", "compiled_autograd", "killed"):
        PARTS[part]()
