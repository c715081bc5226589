"""What `serve` was asked to show: files, folders, recordings that have not ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.on_the_fly import Reading, all_ready, is_foreign
from neuron_explorer.trace.run_files import trace_files, unfinished
from neuron_explorer.trace.sniff import is_spool, printable
from neuron_explorer.ui.folders import MOST_FILES, Folders
from neuron_explorer.ui.recording import Snapshot
from neuron_explorer.ui.registry import MOST_TRACES, Registry

MOST_NAMED: Final = 5
"""Files left out that are named with their reason."""


@dataclass
class Offer:
    """``files``: to be served, in order; ``named``: those that the user named; ``spools``: recordings by trace."""

    files: list[Path] = field(default_factory=list)
    named: set[Path] = field(default_factory=set)
    spools: dict[Path, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)


def offered(paths: Sequence[Path | str]) -> Offer:
    """What the arguments stand for; nothing is opened yet.

    A folder stands for the ``*.parquet`` in it and in its folders ``part_rank=…``, in name order;
    a trace that is not there but is being recorded, and a ``.spool`` folder, for the recording.
    Raises BadTraceError for a folder without any.
    """
    offer = Offer()
    for path in map(Path, paths):
        spool = path if is_spool(path) else path.with_name(path.name + ".spool")
        if is_spool(path) or (not path.exists() and spool.is_dir()):
            target = path.with_name(path.name.removesuffix(".spool")) if path == spool else path
            offer.spools[target] = spool
            offer.files.append(target)
        elif path.is_dir():
            _folder(path, offer)
        else:
            offer.files.append(path)
            offer.named.add(path)
    offer.files = list(dict.fromkeys(offer.files))
    return offer


def _folder(path: Path, offer: Offer) -> None:
    inside = trace_files(path)
    if is_foreign(path):  # a directory of tables of another tool may hold *.parquet, too
        offer.files.append(path)
        offer.named.add(path)
        return
    spools = unfinished(path)
    if not inside and spools:
        for spool in spools[:MOST_FILES]:
            target = spool.with_name(spool.name.removesuffix(".spool"))
            offer.spools[target] = spool
            offer.files.append(target)
        offer.notes.append(
            f"{q.plural(len(spools), 'recording')} that no trace was made of yet: shown as they are now. Of what "
            f"was killed, neuron-explorer recover {printable(path)} makes traces."
        )
        return
    if not inside:
        raise BadTraceError(f"{printable(path)} holds no *.parquet file; name a trace or a directory with traces")
    if len(inside) > MOST_FILES:
        offer.notes.append(f"{printable(path)}: only the first {MOST_FILES:,} of {len(inside):,} files are looked at.")
    offer.files += inside[:MOST_FILES]
    offer.folders.append(path)
    if spools:
        names = ", ".join(printable(p.relative_to(path)) for p in spools[:MOST_NAMED])
        offer.notes.append(
            f"{q.plural(len(spools), 'unfinished recording')} not shown ({names}): name one to look at it."
        )


def open_offer(paths: Sequence[Path | str], reading: Reading | None = None) -> Registry:
    """The registry of what was asked for; every trace is opened once.

    A file that the user named must be a trace (BadTraceError says what it is); one of a folder
    that is none is left out, and ``notes`` says how many were and why. Logs and traces of other
    tools are imported; ``reading`` shows that.
    """
    from neuron_explorer.trace.store import load

    offer = offered(paths)
    if not offer.files:
        raise BadTraceError("no trace was named; neuron-explorer serve trace.parquet")
    live: dict[Path, Snapshot] = {}
    kept: list[Path] = []
    refused: list[str] = []
    left_out: list[Path] = []
    beyond = 0
    try:
        for path in offer.files:
            if len(kept) >= MOST_TRACES:
                beyond += 1
                continue
            try:
                if path in offer.spools:
                    live[path] = Snapshot(offer.spools[path], path)
                    live[path].take()
                    kept.append(path)
                    continue
                for trace in all_ready(path, reading) if reading else all_ready(path):
                    load(trace).close()
                    kept.append(trace)
            except BadTraceError as error:
                if path in offer.named or path in offer.spools:
                    raise
                refused.append(str(error))
                left_out.append(path)
    except BaseException:
        for snapshot in live.values():
            snapshot.close()
        raise
    if not kept:
        raise BadTraceError(f"{q.plural(len(refused), 'file')}, none of them a trace: {refused[0]}")
    notes = list(offer.notes)
    if refused:
        more = len(refused) - MOST_NAMED
        tail = f" (and {more} more)" if more > 0 else ""
        whole = len(kept) + len(refused) + beyond
        notes.append(f"Left out {len(refused)} of {whole} files: {' '.join(refused[:MOST_NAMED])}{tail}")
    if beyond:
        notes.append(f"{q.plural(beyond, 'further file')} not shown: one server shows {MOST_TRACES} traces.")
    return Registry(kept, live=live, notes=notes, folders=Folders(offer.folders, offer.files, left_out))
