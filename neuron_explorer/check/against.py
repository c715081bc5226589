"""Two revisions of a program recorded in turn, so that their times can be compared.

The other revision is checked out into a temporary worktree, which comes first on the import path
and is the working directory of its runs. Where both sides turn out to have run the same source,
nothing was compared.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.sniff import printable

ORDER: Final = ("before", "after", "after", "before")
"""Sides take turns in this order again and again, so that a drift of the machine falls on both."""
LONGEST_S: Final = 24 * 3600


class RunError(NeuronExplorerError):
    """A program or a checkout that failed: which, how, and what it said last."""

    exit_code = 4


class SameSourceError(NeuronExplorerError):
    """Both sides ran the same code: there is nothing to compare."""

    exit_code = 3


@dataclass(frozen=True)
class Recorded:
    """Traces of both sides, in the order in which they were made."""

    before: tuple[Path, ...]
    after: tuple[Path, ...]


def git(root: Path, *arguments: str) -> str:
    """Output of a git command. Raises ``RunError``."""
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"git could not be run: {error}.") from None
    if done.returncode:
        raise RunError(f"git {arguments[0]} failed: {_last(done.stderr)}.")
    return done.stdout.strip()


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return printable(lines[-1])[:300].rstrip(".") if lines else "it said nothing"


@contextlib.contextmanager
def worktree(revision: str, start: Path) -> Iterator[Path]:
    """The revision checked out beside nothing of the user's; the same folder inside it as ``start``.

    Raises ``RunError`` where ``start`` is in no repository or the revision is unknown.
    """
    root = Path(git(start, "rev-parse", "--show-toplevel"))
    if revision.startswith("-"):
        raise RunError(f"{printable(revision)} is no revision.")
    try:
        commit = git(start, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except RunError:
        raise RunError(f"git knows no revision {printable(revision)} here.") from None
    folder = Path(tempfile.mkdtemp(prefix="neuron-explorer-"))
    tree = folder / root.name
    try:
        git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            yield tree / os.path.relpath(start.resolve(), root)
        finally:
            with contextlib.suppress(RunError):
                git(root, "worktree", "remove", "--force", str(tree))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(RunError):
            git(root, "worktree", "prune")


def record_in_turn(
    command: str, before: Path, after: Path, folder: Path, runs: int, *,
    tell: Callable[[str], None] = lambda text: None, options: Sequence[str] = (),
) -> Recorded:  # fmt: skip
    """Record ``command`` ``runs`` times on each side, in turn. ``before`` and ``after``: working directories.

    Raises ``RunError`` where a run fails.
    """
    words = shlex.split(command)
    if not words:
        raise RunError("the command to run is empty.")
    made: dict[str, list[Path]] = {"before": [], "after": []}
    where = {"before": before, "after": after}
    turn = 0
    while min(len(made["before"]), len(made["after"])) < runs:
        side = ORDER[turn % len(ORDER)]
        turn += 1
        if len(made[side]) >= runs:
            continue
        output = folder / f"{side}-{len(made[side]) + 1:03}.parquet"
        tell(f"{side} {len(made[side]) + 1} of {runs}")
        _record(words, where[side], output, options)
        made[side].append(output)
    return Recorded(tuple(made["before"]), tuple(made["after"]))


def _record(words: Sequence[str], folder: Path, output: Path, options: Sequence[str]) -> None:
    script = list(words)
    # `python train.py` is recorded by the interpreter that it names; anything else is a script.
    interpreter = script.pop(0) if Path(script[0]).name.startswith("python") else sys.executable
    if not script:
        raise RunError("the command must be a script: --run 'python train.py'.")
    command = [_interpreter(interpreter), "-m", "neuron_explorer", "record", *options, "-o", str(output), *script]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LONGEST_S,
            env=environment(folder),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{printable(shlex.join(words))} could not be run: {error}.") from None
    if done.returncode or not output.exists():
        raise RunError(
            f"{printable(shlex.join(words))} failed in {printable(folder)} (exit code {done.returncode}): "
            f"{_last(done.stderr)}."
        )


def _interpreter(name: str) -> str:
    return sys.executable if name in ("python", "python3") else name


def environment(folder: Path) -> Mapping[str, str]:
    """The environment of a run: its folder comes first on the import path, and this package stays the one that asks."""
    own = str(Path(__file__).resolve().parents[2])
    paths = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep), own]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(p for p in paths if p))}


def refuse_same_source(recorded: Recorded) -> None:
    """Raise ``SameSourceError`` where the first runs of both sides carry the same sources."""
    from neuron_explorer.trace.store import load

    texts = []
    for path in (recorded.before[0], recorded.after[0]):
        with load(path) as trace:
            rows = trace.sql("SELECT file, text FROM sources ORDER BY file").itertuples(index=False)
            texts.append({(row.file, row.text) for row in rows})
    if texts[0] == texts[1]:
        raise SameSourceError(
            "both sides ran the same source: the revision does not differ in what ran, or its modules are installed "
            "and were not taken from the checkout; put the package's folder on the import path relative to the "
            "repository, or compare other revisions."
        )
