"""The traces of one run, one for each rank: which there are, which are missing, and which are left aside.

    run = open_run("run/")
    for rank in run.ranks:
        with rank.load() as trace:
            ...

Nothing is assumed of names: the metadata of a trace says its rank, and which launch it is of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import BadTraceError, NeuronExplorerError
from .output import living_writer, rank_of_part
from .run_files import trace_files, unfinished
from .sniff import is_spool, printable
from .store import Trace, load

__all__ = ["RankFile", "Run", "SetAside", "is_run", "open_run", "run_of"]

MOST_NAMED: Final = 8
MOST_LOOKED_AT: Final = 16
"""Traces of a directory that are asked whether they are of ranks: others may lie beside them."""
_SESSION_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class RankFile:
    """The trace of one rank. Times in nanoseconds; ``start_unix_ns`` is what that rank's own clock said.

    ``run_id`` is the same for all ranks of a launch, and empty where the trace does not say.
    """

    rank: int
    path: Path
    world_size: int
    attempt: int = 0
    run_id: str = ""
    host: str = ""
    torch: str = ""
    script: str = ""
    start_unix_ns: int = 0
    duration_ns: int = 0
    events: int = 0
    finished: bool = True
    recovered: bool = False
    device: str = "cpu"
    emulated: bool = False

    def load(self) -> Trace:
        """Open it. Raises ``BadTraceError``."""
        return load(self.path)


@dataclass(frozen=True)
class SetAside:
    """A file of the directory that is not among the ranks; ``rank`` -1 where it cannot be told.

    ``kind``: ``damaged``, ``interrupted`` (a recording of a process that was killed), ``recording`` (it goes
    on), ``earlier attempt``, ``again`` (two traces of one rank) or ``other run``.
    """

    path: Path
    kind: str
    reason: str
    rank: int = -1


@dataclass(frozen=True)
class Run:
    """One run: ``ranks`` by rank, the ``missing`` ones, what was ``set_aside``, and notes for the reader."""

    directory: Path
    ranks: tuple[RankFile, ...]
    world_size: int
    missing: tuple[int, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, rank: int) -> RankFile | None:
        """The trace of a rank; None where there is none."""
        return next((r for r in self.ranks if r.rank == rank), None)


def is_run(path: Path) -> bool:
    """Whether a path is a directory with the traces of several ranks, or what is to become such traces.

    Looks at the metadata of ``MOST_LOOKED_AT`` at most.
    """
    if not path.is_dir() or is_spool(path):
        return False
    files = trace_files(path)
    if any(rank_of_part(file.parent.name) is not None for file in files):
        return True
    if len(files) < 2:
        return not files and any(rank_of_part(spool.parent.name) is not None for spool in unfinished(path))
    for file in files[:MOST_LOOKED_AT]:
        try:
            with load(file) as trace:
                if trace.meta.world_size > 1:
                    return True
        except NeuronExplorerError:
            continue
    return False


def open_run(path: Path) -> Run:
    """The run in a directory. Raises ``BadTraceError`` where nothing in it is a trace.

    Of several runs, the one that began last is taken; of several attempts or traces of one rank,
    the latest. The others are set aside, and the notes say so.
    """
    if not path.is_dir():
        return run_of(path.parent, [path])
    files, spools = trace_files(path), unfinished(path)
    if not files and not spools:
        raise BadTraceError(f"{printable(path)} holds no trace; give a directory with the traces of a run.")
    return run_of(path, files, spools)


def run_of(directory: Path, files: Sequence[Path], spools: Sequence[Path] = ()) -> Run:
    """The run that the given traces and unfinished recordings are of. Raises ``BadTraceError`` without any trace."""
    aside: list[SetAside] = []
    with ThreadPoolExecutor(2) as threads:
        looked = list(threads.map(_look, files))
    found = [one for one in looked if isinstance(one, RankFile)]
    aside += [one for one in looked if isinstance(one, SetAside)]
    aside += [_unfinished(spool, directory) for spool in spools]
    if not found:
        whys = next(iter(aside)).reason if aside else "it is empty"
        raise BadTraceError(f"{printable(directory)} holds no trace that can be read: {whys}")
    chosen, others = _latest_run(found)
    aside += others
    ranks, doubles = _one_a_rank(chosen)
    aside += doubles
    world = max([len(ranks), *(r.world_size for r in ranks), *(r.rank + 1 for r in ranks)])
    there = {r.rank for r in ranks}
    missing = tuple(rank for rank in range(min(world, 10_000_000)) if rank not in there)
    return Run(directory, ranks, world, missing, tuple(aside), tuple(_notes(ranks, world, missing, aside)))


def _look(path: Path) -> RankFile | SetAside:
    try:
        with load(path) as trace:
            return _rank_file(path, trace.metadata)
    except NeuronExplorerError as error:
        return SetAside(path, "damaged", str(error), _rank_by_name(path))


def _rank_file(path: Path, document: Mapping[str, Any]) -> RankFile:
    about = document.get("distributed")
    about = about if isinstance(about, dict) else {}
    return RankFile(
        rank=max(0, document["rank"]),
        path=path,
        world_size=max(1, document["world_size"]),
        attempt=_integer(about, "attempt"),
        run_id=_text(about, "run_id"),
        host=_text(about, "host"),
        torch=_text(document["versions"], "torch"),
        script=document["script"] or "",
        start_unix_ns=document["start_unix_ns"],
        duration_ns=document["duration_ns"],
        events=_integer(document["counts"], "events"),
        finished=document["finished"],
        recovered=document["recovered"],
        device=_text(document["device"], "type"),
        emulated=document["device"].get("emulated") is True,
    )


def _latest_run(found: Sequence[RankFile]) -> tuple[list[RankFile], list[SetAside]]:
    by_run: dict[tuple[str, int], list[RankFile]] = {}
    for one in found:
        # Without a name of the launch, the number of its ranks is all that tells two runs apart.
        by_run.setdefault((one.run_id, one.world_size), []).append(one)
    order = sorted(by_run.values(), key=lambda ranks: max(r.start_unix_ns for r in ranks))
    others = [
        SetAside(r.path, "other run", "it is of another run, which began earlier", r.rank)
        for ranks in order[:-1] for r in ranks
    ]  # fmt: skip
    return order[-1], others


def _one_a_rank(found: Iterable[RankFile]) -> tuple[tuple[RankFile, ...], list[SetAside]]:
    ranks: dict[int, RankFile] = {}
    aside = []
    for one in sorted(found, key=lambda r: (r.attempt, r.start_unix_ns, str(r.path))):
        before = ranks.get(one.rank)
        if before is not None:
            earlier = before.attempt < one.attempt
            kind = "earlier attempt" if earlier else "again"
            why = "the launcher started the ranks again after it" if earlier else (
                f"another trace of rank {one.rank} began later: {printable(one.path.name)}"
            )  # fmt: skip
            aside.append(SetAside(before.path, kind, why, before.rank))
        ranks[one.rank] = one
    latest = max(r.attempt for r in ranks.values())
    kept = []
    for one in ranks.values():
        if one.attempt < latest:
            aside.append(
                SetAside(one.path, "earlier attempt", "no trace of the latest attempt is there for this rank", one.rank)
            )
        else:
            kept.append(one)
    return tuple(sorted(kept, key=lambda r: r.rank)), aside


def _unfinished(spool: Path, directory: Path) -> SetAside:
    rank = -1
    try:
        with (spool / "session.json").open("rb") as file:
            session = json.loads(file.read(_SESSION_BYTES))
        if isinstance(session, dict) and type(session.get("rank")) is int and 0 <= session["rank"] < 1 << 31:
            rank = session["rank"]
    except (OSError, ValueError, RecursionError):
        rank = _rank_by_name(spool)
    if living_writer(spool) is not None:
        return SetAside(spool, "recording", "its process is still recording", rank)
    return SetAside(
        spool, "interrupted", f"its process was killed; run `neuron-explorer recover {printable(directory)}`", rank
    )


def _rank_by_name(path: Path) -> int:
    rank = rank_of_part(path.parent.name)
    return -1 if rank is None else rank


def _notes(
    ranks: Sequence[RankFile], world: int, missing: Sequence[int], aside: Sequence[SetAside]
) -> Iterable[str]:
    if missing:
        yield f"{len(missing):,} of {world:,} ranks are missing: {ranges(missing)}."
    by_kind: dict[str, list[SetAside]] = {}
    for one in aside:
        by_kind.setdefault(one.kind, []).append(one)
    for kind, files in by_kind.items():
        names = ", ".join(printable(f.path.name if f.rank < 0 else f"rank {f.rank}") for f in files[:MOST_NAMED])
        more = f" and {len(files) - MOST_NAMED:,} more" if len(files) > MOST_NAMED else ""
        yield f"Left aside, {kind}: {names}{more} ({files[0].reason.rstrip('.')})."
    torches = sorted({r.torch for r in ranks if r.torch})
    if len(torches) > 1:
        yield f"The ranks ran different versions of torch: {', '.join(torches[:MOST_NAMED])}."
    cut = [r.rank for r in ranks if not r.finished]
    if cut:
        yield f"The recording of {len(cut):,} of {len(ranks):,} ranks ended early: {ranges(cut)}."
    worlds = sorted({r.world_size for r in ranks})
    if len(worlds) > 1:
        yield f"The traces do not agree on the number of ranks: {', '.join(map(str, worlds[:MOST_NAMED]))}."


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as ``0-3, 7``; at most eight such parts."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in parts[:MOST_NAMED]]
    return ", ".join(shown) + (" …" if len(parts) > MOST_NAMED else "")


def _integer(table: Mapping[str, Any], name: str) -> int:
    value = table.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    return value[:1000] if isinstance(value, str) else ""
