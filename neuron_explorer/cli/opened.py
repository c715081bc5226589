"""Opening what a command was given: a trace, or what can be made into one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


def load(path: Path) -> Trace:
    """The trace at ``path``; a log or trace of another tool is imported first, with a progress bar.

    Raises BadTraceError and OutputError.
    """
    from neuron_explorer.cli.import_ import progress_bar
    from neuron_explorer.trace.on_the_fly import ready
    from neuron_explorer.trace.store import load as load_trace

    return load_trace(ready(path, progress_bar))


def recordings_of(path: Path) -> list[Path]:
    """The recordings that ``path`` stands for; see ``trace.recordings``. Raises BadTraceError and OutputError."""
    from neuron_explorer.cli.import_ import progress_bar
    from neuron_explorer.trace.recordings import recordings_of as recordings

    return recordings(path, progress_bar)
