"""What commands do with the directory of a run, or with the address of one: all ranks, or the one that was named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neuron_explorer.errors import BadTraceError

if TYPE_CHECKING:
    from neuron_explorer.analysis.ranks.view import RunView

SUMMARY: Final = {"ranks": ("ranks",), "stragglers": ("stragglers", "divergent"), "collectives": ("findings", "late")}
"""Reports and tables of the summary of a run."""


def directory_of(path: Path) -> Path | None:
    """The directory of the run that a path stands for: itself, or what a directory of JSON traces is imported into.

    None where it is no run. Raises ``BadTraceError`` and ``OutputError``.
    """
    from neuron_explorer.cli.opened import recordings_of
    from neuron_explorer.trace.run import is_run

    found = recordings_of(path) if path.is_dir() else []
    return found[0] if len(found) == 1 and is_run(found[0]) else None


def one_rank(path: Path, rank: int | None) -> Path:
    """The trace to open: ``path``, or in the directory of a run that of the rank. Raises ``BadTraceError``."""
    from neuron_explorer.trace.run import open_run, ranges
    from neuron_explorer.trace.sniff import printable

    directory = directory_of(path)
    if directory is None:
        return path
    run = open_run(directory)
    there = ranges([r.rank for r in run.ranks])
    if rank is None:
        raise BadTraceError(
            f"{printable(path)} is a run of {run.world_size:,} ranks and this report is about one: add --rank ({there} "
            "are there), or ask for the report ranks, collectives or stragglers."
        )
    found = run.of(rank)
    if found is None:
        raise BadTraceError(f"{printable(path)} has no trace of rank {rank}; there are {there}.")
    return found.path


def view(path: str, scheduler: str = "") -> RunView:
    """All ranks of the run in a directory or at an address. Raises ``BadTraceError`` and what cluster.ranks raises."""
    from neuron_explorer.analysis.ranks.view import RunView, view_of, view_of_facts, view_of_files
    from neuron_explorer.cli.import_ import progress_bar
    from neuron_explorer.cli.opened import recordings_of
    from neuron_explorer.cluster.storage import is_address

    if scheduler or is_address(path):
        from neuron_explorer.cluster.ranks import run_facts

        with progress_bar("ranks") as progress:
            gathered = run_facts(path, scheduler=scheduler, progress=progress)
        known = view_of_facts(gathered.facts)
        return RunView(known.facts, (*known.notes, *_refused(gathered.refused)))
    found = recordings_of(Path(path))
    with progress_bar("ranks") as progress:
        return view_of(found[0], progress) if len(found) == 1 else view_of_files(Path(path), found, progress)


def _refused(refused: Sequence[tuple[str, str]]) -> list[str]:
    shown = [f"{address} could not be read: {reason}" for address, reason in refused[:5]]
    return shown + ([f"{len(refused) - 5:,} further traces could not be read."] if len(refused) > 5 else [])


def summary(path: Path, form: str, top: int) -> str:
    """The summary of a run, as ``text``, ``json`` or ``markdown``."""
    import json
    from dataclasses import replace

    from neuron_explorer.analysis.answer import Ask
    from neuron_explorer.analysis.questions import ask_run
    from neuron_explorer.analysis.render_answer import render

    run = view(str(path))
    answers = []
    for name, tables in SUMMARY.items():
        answer = ask_run(run, name, Ask(top=top))
        answers.append(replace(answer, tables=tuple(t for t in answer.tables if t.kind.name in tables)))
    if form == "json":
        return json.dumps({a.name: json.loads(render(a, "json")) for a in answers}, indent=2) + "\n"
    return "\n".join(render(answer, form) for answer in answers)
