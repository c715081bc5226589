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
    """The recordings that ``path`` stands for: itself, what is imported from it, or the traces of a directory.

    A directory with the traces of the ranks of one run stands for one recording: the directory. Raises
    BadTraceError and OutputError.
    """
    from neuron_explorer.cli.import_ import progress_bar
    from neuron_explorer.trace.on_the_fly import all_ready
    from neuron_explorer.trace.run import is_run
    from neuron_explorer.trace.run_files import trace_files

    found = all_ready(path, progress_bar)
    if found == [path] and path.is_dir():
        return [path] if is_run(path) else trace_files(path) or [path]
    folders = {file.parent for file in found}
    if len(found) > 1 and len(folders) == 1 and is_run(found[0].parent):
        return [found[0].parent]
    return found
