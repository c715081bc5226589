"""Facts of ranks are made once and kept beside the traces: a run is looked at again in a moment.

The folder is ``.neuron-explorer/ranks`` in the run's directory, or the user's cache folder where that cannot be
written. Facts are used again while their trace has the same size, time and inode.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from neuron_explorer.analysis.ranks.facts import VERSION, RankFacts, RunFacts
from neuron_explorer.analysis.ranks.merge import merge_ranks
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.on_the_fly import FOLDER
from neuron_explorer.trace.run import RankFile, Run

__all__ = ["KeptRun", "facts_of_run", "reduced"]

PROCESSES: Final = 2
"""Traces are reduced by so many processes, each one trace after another."""
SMALL_EVENTS: Final = 1_500_000
"""Of fewer events in all, starting processes takes longer than it saves."""
_END: Final = ".facts"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class KeptRun:
    """``failed``: ranks whose traces could not be reduced, with the reason. ``made``: traces that had to be read.
    ``folder``: where they are kept.
    """

    facts: RunFacts
    failed: tuple[tuple[int, str], ...] = ()
    made: int = 0
    folder: Path | None = None


def facts_of_run(run: Run, progress: Progress | None = None) -> KeptRun:
    """The facts of all ranks of a run; those that are not kept yet are made."""
    folder = _folder(run.directory)
    files = [(rank, folder / _name(rank.path)) for rank in run.ranks]
    with ThreadPoolExecutor(2) as threads:
        known = dict(zip(run.ranks, threads.map(_kept, files), strict=True))
    missing = [(rank, target) for rank, target in files if known[rank] is None]
    done = [0]

    def tell() -> None:
        done[0] += 1
        if progress is not None:
            progress(done[0], len(missing))

    _clean(folder, [target for _, target in missing])
    failed = _make(missing, tell)
    facts = []
    for rank, target in files:
        one = known[rank] if known[rank] is not None else _kept((rank, target))
        if one is not None:
            facts.append(one)
        elif not any(number == rank.rank for number, _ in failed):
            failed.append((rank.rank, "its facts could not be kept"))
    return KeptRun(merge_ranks(facts), tuple(sorted(failed)), len(missing), folder)


def reduced(path: Path) -> RankFacts:
    """The facts of one trace. Raises ``BadTraceError``."""
    from neuron_explorer.analysis.ranks.reduce import reduce_rank
    from neuron_explorer.trace.store import load

    with load(path) as trace:
        return reduce_rank(trace)


def reduce_to(path: Path, target: Path) -> None:
    """Make the facts of a trace and keep them; whole or not at all. Raises ``BadTraceError`` and ``OSError``."""
    data = reduced(path).to_bytes()
    handle, temporary = tempfile.mkstemp(prefix=".making-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _kept(entry: tuple[RankFile, Path]) -> RankFacts | None:
    """What is kept, as long as it is of that rank; None for anything else."""
    rank, path = entry
    try:
        facts = RankFacts.from_bytes(path.read_bytes())
    except (OSError, NeuronExplorerError):
        return None
    return replace(facts, path=str(rank.path)) if facts.rank == rank.rank else None


def _make(missing: Sequence[tuple[RankFile, Path]], tell: Callable[[], None]) -> list[tuple[int, str]]:
    if len(missing) < 2 or sum(rank.events for rank, _ in missing) < SMALL_EVENTS:
        return [failure for rank, target in missing if (failure := _make_here(rank, target, tell))]
    # The longest first, so that no process is left with one at the end.
    order = sorted(missing, key=lambda pair: (-pair[0].events, pair[0].rank))
    queue = iter(order)
    with ThreadPoolExecutor(PROCESSES) as threads:
        workers = [_Worker() for _ in range(PROCESSES)]
        try:
            futures = [threads.submit(_work, worker, queue, tell) for worker in workers]
            return [failure for future in futures for failure in future.result()]
        finally:
            for worker in workers:
                worker.stop()


def _make_here(rank: RankFile, target: Path, tell: Callable[[], None]) -> tuple[int, str] | None:
    try:
        reduce_to(rank.path, target)
    except (NeuronExplorerError, OSError) as error:
        return rank.rank, str(error)
    tell()
    return None


def _work(worker: _Worker, queue: object, tell: Callable[[], None]) -> list[tuple[int, str]]:
    failed = []
    while True:
        try:
            # A generator is not shared: `next` of a list's iterator is one step under the interpreter's lock.
            rank, target = next(queue)  # type: ignore[call-overload]
        except StopIteration:
            return failed
        said = worker.ask(rank.path, target)
        if said is None:  # the process is gone: the trace may have been too much for it
            failure = _make_here(rank, target, tell)
            if failure is not None:
                failed.append(failure)
        elif said:
            failed.append((rank.rank, said))
        else:
            tell()


class _Worker:
    """A process that reduces traces, one for each line that it is given."""

    def __init__(self) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from neuron_explorer.analysis.ranks.worker import main; main()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True,
            cwd=os.path.abspath(os.sep),  # so that no module of the run's directory is imported
        )  # fmt: skip

    def ask(self, path: Path, target: Path) -> str | None:
        """What went wrong, "" for nothing, None where the process does not answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([os.path.abspath(path), os.path.abspath(target)]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except (OSError, ValueError):
            return None
        return str(json.loads(answer)) if answer else None

    def stop(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _folder(directory: Path) -> Path:
    from neuron_explorer._native.build import cache_folder

    beside = Path(os.path.abspath(directory)) / FOLDER / "ranks"
    for folder in (beside, cache_folder() / "ranks"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
        except OSError:
            continue
    return Path(tempfile.mkdtemp(prefix="neuron-explorer-ranks-"))


def _name(path: Path) -> str:
    """Names the trace, and the state that it is in."""
    real = os.path.realpath(path).encode("utf-8", "surrogateescape")
    status = path.stat()
    state = f"{VERSION}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}".encode()
    digests = (hashlib.blake2b(part, digest_size=8).hexdigest() for part in (real, state))
    return "-".join(digests) + _END


def _clean(folder: Path, targets: Sequence[Path]) -> None:
    """What was kept of an earlier state of a trace goes."""
    if not targets:
        return
    of_files = {target.name.partition("-")[0] for target in targets}
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_END) and entry.name.partition("-")[0] in of_files:
                with suppress(OSError):
                    os.unlink(entry.path)
