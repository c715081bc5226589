"""Neuron Explorer: a profiler and performance explorer for PyTorch.

    import neuron_explorer

    with neuron_explorer.profile("trace.parquet") as prof:
        for batch in loader:
            train_step(batch)
            prof.step()

Importing this package imports neither torch nor any data library: torch is needed only
to record, pandas and the rest only to read.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, Literal

from neuron_explorer.errors import BadTraceError, NeuronExplorerError, OutputError, ProfilerActiveError
from neuron_explorer.trace.notices import RecompileWarning

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from neuron_explorer.comparing.comparison import Comparison
    from neuron_explorer.trace.schedule import Schedule
    from neuron_explorer.trace.session import Profile
    from neuron_explorer.trace.store import Trace

__version__ = "0.1.0"

__all__ = [
    "BadTraceError",
    "NeuronExplorerError",
    "OutputError",
    "ProfilerActiveError",
    "RecompileWarning",
    "__version__",
    "annotate",
    "compare",
    "load",
    "profile",
    "schedule",
]


def profile(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    schedule: Schedule | None = None,
    stacks: bool = True,
    shapes: bool = True,
    tensors: bool = False,
    memory: bool = False,
    source: Literal["all", "lines", "none"] = "all",
    user_code: Sequence[str] | None = None,
    recorder: Literal["auto", "native", "twin"] = "auto",
    paths: Literal["relative", "absolute"] = "relative",
    steps: Literal["auto", "none"] = "auto",
    compile: Literal["light", "full", "off"] = "light",
    warn_on_recompile: bool = False,
) -> Profile:
    """Record what torch does between ``with`` and the end of its block into ``path``.

    The result is a context manager with ``step()``, ``pause()``, ``resume()``, ``start()``,
    ``stop()``, ``path``, ``stats`` and ``error``. One recording at a time in a process.

    Args:
        path: The trace file (Parquet), or a directory with a final slash. ``{rank}`` in it stands for the
            distributed rank; without it each of several ranks writes ``trace.rank0.parquet`` and so on.
        overwrite: Replace an existing file, and the remains of an interrupted recording.
        schedule: Which steps to record, see :func:`schedule`; needs ``prof.step()``.
        stacks: Record the Python stack of every event, and with it source lines and modules.
        shapes: Record shapes, strides, dtypes and small arguments of every operator.
        tensors: Record the storage id and version of every input (ids, never references).
        memory: Record every allocation and release of torch's memory: its bytes, its device, and the line.
        source: How much source text the trace embeds: the files that ran, only the lines
            that ran, or nothing.
        user_code: Directories or module names that count as your code too, such as
            ``("transformers",)``. Without it that is everything outside torch, this package,
            installed packages and the standard library.
        recorder: "native" (C++, built on first use), "twin" (Python, slower and sees less)
            or "auto": native where it can be built, else the twin with a warning.
        paths: Whether the trace holds paths relative to the working directory, or absolute ones.
        steps: "auto" finds the steps when ``prof.step()`` is never called, "none" does not.
        compile: "light" records every compilation of ``torch.compile``: its phases, guards, graph,
            why it was compiled again, and where it broke. "full" also listens to torch's own
            structured log, as ``TORCH_TRACE`` does, which makes compiling take longer. "off": none.
        warn_on_recompile: Show a :class:`RecompileWarning` at the calling line whenever a function
            is compiled again, and when torch gives up on it. On stderr where the program turns
            warnings into errors: it never raises inside the compiler.

    Raises:
        OutputError: ``path`` cannot be written, or would overwrite something.
        ProfilerActiveError: on entering, while another recording of this process is active.
        NativeUnavailable: on entering, when ``recorder="native"`` cannot be had.
        ValueError: an option has a value that is not listed above.
    """
    from neuron_explorer.trace.session import Profile
    from neuron_explorer.trace.settings import Settings

    return Profile(
        path,
        overwrite=overwrite,
        schedule=schedule,
        settings=Settings(
            stacks=stacks,
            shapes=shapes,
            tensors=tensors,
            memory=memory,
            source=source,
            user_code=None if user_code is None else tuple(user_code),
            recorder=recorder,
            paths=paths,
            steps=steps,
            compile=compile,
            warn_on_recompile=warn_on_recompile,
        ),
    )


def schedule(*, wait: int = 0, warmup: int = 0, active: int, repeat: int = 0) -> Schedule:
    """Which steps to record: ``wait`` steps not at all, ``warmup`` steps marked as warm-up, ``active`` steps.

    The cycle runs ``repeat`` times, or for ever when that is 0. All windows land in one file.

    Raises:
        ValueError: a number is negative, or ``active`` is 0.
    """
    from neuron_explorer.trace.schedule import Schedule

    return Schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)


class _Unrecorded(ContextDecorator):
    """What :func:`annotate` returns where torch is not installed."""

    def __enter__(self) -> _Unrecorded:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def annotate(name: str) -> Any:
    """A range called ``name`` in the trace: ``with annotate("loss"):`` or ``@annotate("loss")``.

    It is ``torch.profiler.record_function``, which torch.compile knows and leaves alone, so
    a function compiles the same with and without it, recorded or not.
    """
    try:
        from torch.autograd.profiler import record_function
    except ImportError:
        return _Unrecorded()
    return record_function(name)


def compare(
    before: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    after: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    interleaved: bool = False,
) -> Comparison:
    """Compare two runs, or two sets of repeated runs, of a program.

    Args:
        before: A trace, a log or trace of another tool (it is imported first), a directory of repeated runs, or a
            list of them.
        after: The same, of what is compared with it.
        interleaved: The runs of both sides took turns on one machine; without that a slower time is at
            most suspicious.

    Raises:
        BadTraceError: one of them cannot be read.
    """
    from pathlib import Path

    from neuron_explorer.comparing.comparison import comparison
    from neuron_explorer.comparing.sides import runs_of
    from neuron_explorer.trace.recordings import recordings_of

    def paths(given: Any) -> list[Path]:
        every = given if isinstance(given, list | tuple) else [given]
        return [found for path in every for found in recordings_of(Path(path))]

    return comparison(runs_of(paths(before)), runs_of(paths(after)), interleaved=interleaved)


def load(path: str | os.PathLike[str]) -> Trace:
    """Open a trace file for reading (no torch needed).

    Raises:
        BadTraceError: the file is missing, damaged, no trace, or written by a newer version.
    """
    from neuron_explorer.trace.store import load as load_trace

    return load_trace(path)
