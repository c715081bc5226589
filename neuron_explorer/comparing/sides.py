"""The runs of a side: one trace, several, a directory of repeated runs, or that of a distributed run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from neuron_explorer.comparing.ranks import run_of_ranks
from neuron_explorer.comparing.run import Run, run_of
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.run import is_run
from neuron_explorer.trace.run_files import trace_files
from neuron_explorer.trace.sniff import printable
from neuron_explorer.trace.store import load

MOST_RUNS: Final = 200


def runs_of(paths: Sequence[Path]) -> tuple[Run, ...]:
    """The runs of the given files and directories, by name. Raises ``BadTraceError``."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir() and is_run(path):
            files.append(path)
        elif path.is_dir():
            inside = trace_files(path)
            if not inside:
                raise BadTraceError(f"{printable(path)} holds no trace; give a trace, or a directory of traces.")
            files += inside
        else:
            files.append(path)
    if len(files) > MOST_RUNS:
        raise BadTraceError(f"{len(files)} runs on one side; {MOST_RUNS} are compared at most.")
    found = []
    for file in files:
        if file.is_dir():
            found.append(run_of_ranks(file))
            continue
        with load(file) as trace:
            found.append(run_of(trace, file.name))
    return tuple(found)
