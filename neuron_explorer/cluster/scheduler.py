"""Work on many traces, on a Dask cluster or in this process: one result for each, as they come.

A worker that dies is no answer: what it held is computed again by another one. A trace that cannot be
read is an answer, with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import NeuronExplorerError
from ..trace.sniff import printable
from .storage import Remote, StorageError, local_copy

__all__ = ["ClusterError", "Reduced", "each"]

RETRIES: Final = 3
"""How often a trace is tried again after an error that is no fault of its own."""
CONNECT_S: Final = 20
AHEAD: Final = 4
"""Traces a worker thread that are submitted at once: a run of 10,000 must not fill the scheduler."""

Reduce = Callable[[Any], bytes]
"""Of an open trace, what is kept of it. Found by its import path on the workers."""


class ClusterError(NeuronExplorerError):
    """A scheduler that cannot be used: which, why, what to do."""

    exit_code = 4


@dataclass(frozen=True)
class Reduced:
    """What became of one trace: its ``data``, or the ``reason`` why there is none."""

    trace: Remote
    data: bytes = b""
    reason: str = ""


def each(
    traces: Sequence[Remote], reduce: Reduce, *, scheduler: str = "", options: Mapping[str, Any] | None = None
) -> Iterator[Reduced]:
    """Reduce every trace; results come in any order, one for each trace.

    ``scheduler``: the address of a Dask scheduler (``tcp://host:8786``); without one, one after the other here.
    Raises ``ClusterError`` where it cannot be reached, has no workers, or its workers lack this package.
    """
    if not scheduler:
        for trace in traces:
            yield reduced(trace, reduce, options)
        return
    yield from _on_cluster(traces, reduce, scheduler, options)


def reduced(trace: Remote, reduce: Reduce, options: Mapping[str, Any] | None) -> Reduced:
    """The result of one trace, computed here. Never raises for what a trace holds."""
    from ..trace.store import load

    try:
        with local_copy(trace, options) as file, load(file) as opened:
            return Reduced(trace, reduce(opened))
    except NeuronExplorerError as error:
        return Reduced(trace, reason=str(error))


def _on_cluster(
    traces: Sequence[Remote], reduce: Reduce, scheduler: str, options: Mapping[str, Any] | None
) -> Iterator[Reduced]:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise ClusterError(
            "--scheduler needs Dask: install it with `pip install 'neuron-explorer[cluster]'`, here and on the workers."
        ) from None
    try:
        client = Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(f"the scheduler {printable(scheduler)} cannot be reached: {error}") from None
    with client, client.as_current():
        workers = client.scheduler_info(n_workers=-1)["workers"]
        threads = sum(int(worker.get("nthreads", 1)) for worker in workers.values())
        if not threads:
            raise ClusterError(f"the scheduler {printable(scheduler)} has no workers; start some with `dask worker`.")
        waiting = iter(traces)
        of: dict[str, Remote] = {}

        def submit() -> Any:
            trace = next(waiting, None)
            if trace is None:
                return None
            future = client.submit(reduced, trace, reduce, options, pure=False, retries=RETRIES)
            of[str(future.key)] = trace
            return future

        running = as_completed([f for _ in range(threads * AHEAD) if (f := submit()) is not None])
        for future in running:
            trace = of.pop(str(future.key))
            # Not its status: a result whose worker has just died is computed again, and both wait for that.
            failed = future.exception()
            yield future.result() if failed is None else Reduced(trace, reason=_failure(failed, scheduler))
            future.release()
            further = submit()
            if further is not None:
                running.add(further)


def _failure(error: BaseException, scheduler: str) -> str:
    if isinstance(error, (ModuleNotFoundError, AttributeError)):
        raise ClusterError(
            f"the workers of {printable(scheduler)} lack this version of neuron-explorer ({error}); install it there."
        ) from None
    if isinstance(error, StorageError):
        return str(error)
    text = " ".join(printable(str(error)).split())[:300]
    return f"it failed {RETRIES + 1} times: {type(error).__name__}: {text}"
