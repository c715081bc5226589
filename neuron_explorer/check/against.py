"""Two revisions of a program recorded in turn, so that their times can be compared.

The other revision is checked out into a temporary worktree, which comes first on the import path
and is the working directory of its runs. Where both sides turn out to have run the same source,
nothing was compared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neuron_explorer.check.program import Program, RunError, last_line, record
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.sniff import printable

ORDER: Final = ("before", "after", "after", "before")
"""Sides take turns in this order again and again, so that a drift of the machine falls on both."""
MOST_SUBMODULES: Final = 200
_ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


class SameSourceError(NeuronExplorerError):
    """Both sides ran the same code: there is nothing to compare."""

    exit_code = 3


@dataclass(frozen=True)
class Side:
    """Where one side runs. ``root``: its checkout; ``folder``: the working directory in it; ``own``: the user's
    checkout, from which nothing may be imported on the other side.
    """

    root: Path
    folder: Path
    own: Path

    def import_path(self) -> list[str]:
        """Folders that come first on the import path: those of this side, never those of the other."""
        given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        mapped = [str(self._here(Path(p))) for p in given]
        source = self.root / "src"
        return [str(self.folder), *mapped, str(self.root), *([str(source)] if source.is_dir() else [])]

    def _here(self, path: Path) -> Path:
        inside = path.absolute()
        with contextlib.suppress(ValueError):
            return self.root / inside.relative_to(self.own)
        return path


@dataclass(frozen=True)
class Recorded:
    """Traces of both sides, in the order in which they were made."""

    before: tuple[Path, ...]
    after: tuple[Path, ...]


def git(root: Path, *arguments: str) -> str:
    """Output of a git command; no hook of the repository runs. Raises ``RunError``."""
    known = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    command = ["git", "-C", str(root), "-c", f"core.hooksPath={os.devnull}", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600, env=known)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"git could not be run: {error}.") from None
    if done.returncode:
        raise RunError(f"git {arguments[0]} failed: {last_line(done.stderr)}.")
    return done.stdout.strip()


@contextlib.contextmanager
def both_sides(revision: str, start: Path) -> Iterator[tuple[Side, Side]]:
    """The revision in a temporary worktree, and the user's checkout as it is; both at the folder ``start``.

    Raises ``RunError`` where ``start`` is in no repository, or the revision or the folder is unknown.
    """
    root = Path(git(start, "rev-parse", "--show-toplevel"))
    if revision.startswith("-"):
        raise RunError(f"{printable(revision)} is no revision.")
    try:
        commit = git(start, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except RunError:
        raise RunError(f"git knows no revision {printable(revision)} here{_shallow(start)}.") from None
    here = Path(os.path.relpath(start.resolve(), root.resolve()))
    folder = Path(tempfile.mkdtemp(prefix="neuron-explorer-"))
    tree = folder / root.name
    with_modules: list[Path] = []
    try:
        git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        if not (tree / here).is_dir():
            raise RunError(f"revision {printable(revision)} has no folder {printable(here)}.")
        add_submodules(root, tree, commit, with_modules)
        yield Side(tree, tree / here, root), Side(root, start, root)
    finally:
        with contextlib.suppress(RunError):
            git(root, "worktree", "remove", "--force", str(tree))
        shutil.rmtree(folder, ignore_errors=True)
        for owner in (root, *with_modules):
            with contextlib.suppress(RunError):
                git(owner, "worktree", "prune")


def _shallow(start: Path) -> str:
    with contextlib.suppress(RunError):
        if git(start, "rev-parse", "--is-shallow-repository") == "true":
            return ": the clone is shallow, so fetch it first (git fetch --unshallow)"
    return ""


def add_submodules(root: Path, tree: Path, commit: str, done: list[Path]) -> None:
    """The submodules of a commit as worktrees of the user's own, at the commits that it names; nothing is fetched.

    A submodule that is not checked out, or lacks the commit, is left empty. ``done``: collects the user's submodules
    of which a worktree was made. Calls itself for submodules of submodules.
    """
    for line in git(root, "ls-tree", "-r", "-z", commit).split("\0"):
        kind, _, path = line.partition("\t")
        if not kind.startswith("160000 "):
            continue
        own, there = root / path, tree / path
        if len(done) >= MOST_SUBMODULES or not (own / ".git").exists():
            continue
        with contextlib.suppress(RunError):
            wanted = kind.split()[2]
            git(own, "worktree", "add", "--detach", "--force", "--quiet", str(there), wanted)
            done.append(own)
            add_submodules(own, there, wanted, done)


def record_in_turn(
    program: Program, before: Side, after: Side, folder: Path, runs: int, *,
    tell: Callable[[str], None] = lambda text: None, options: Sequence[str] = (),
) -> Recorded:  # fmt: skip
    """Record ``program`` ``runs`` times on each side, in turn.

    Raises ``RunError`` where a run fails, and ``SameSourceError`` once both have run and ran the same.
    """
    made: dict[str, list[Path]] = {"before": [], "after": []}
    sides = {"before": before, "after": after}
    turn = 0
    while min(map(len, made.values())) < runs:
        side = ORDER[turn % len(ORDER)]
        turn += 1
        if len(made[side]) >= runs:
            continue
        output = folder / f"{side}-{len(made[side]) + 1:03}.parquet"
        tell(f"{side} {len(made[side]) + 1} of {runs}")
        try:
            record(program, sides[side].folder, sides[side].import_path(), output, options)
        except RunError as error:
            raise RunError(f"{error}{_not_committed(before) if side == 'before' else ''}") from None
        made[side].append(output)
        if sum(map(len, made.values())) == 2:
            refuse_same_source(made["before"][0], made["after"][0])
            refuse_own_checkout(made["before"][0], before)
    return Recorded(tuple(made["before"]), tuple(made["after"]))


def refuse_same_source(before: Path, after: Path) -> None:
    """Raise ``SameSourceError`` where both recordings carry the same sources."""
    from neuron_explorer.trace.store import load

    texts = []
    for path in (before, after):
        with load(path) as trace:
            rows = trace.sql("SELECT file, text FROM sources ORDER BY file").itertuples(index=False)
            texts.append({(row.file, row.text) for row in rows})
    if texts[0] == texts[1]:
        raise SameSourceError(
            "both sides ran the same source: the revision does not differ in what ran, or its modules are installed "
            "and were not taken from the checkout; put the package's folder on the import path relative to the "
            "repository, or compare other revisions."
        )


def refuse_own_checkout(recorded: Path, before: Side) -> None:
    """Raise ``SameSourceError`` where the other revision ran code of the user's checkout: both sides would share it."""
    from neuron_explorer.trace.store import load

    with load(recorded) as trace:
        files = [row["file"] for row in trace.sql_arrow("SELECT DISTINCT file FROM sources").to_pylist()]
    own, tree = before.own.resolve(), before.root.resolve()
    for file in sorted(str(file) for file in files if file):
        path = (before.folder / file).resolve()
        if path.is_relative_to(own) and not path.is_relative_to(tree):
            raise SameSourceError(
                f"both sides ran the same source of {printable(path.relative_to(own).as_posix())}: the other revision "
                "took it from your checkout, where its package is installed from; put the package's folder on the "
                "import path relative to the repository (PYTHONPATH), and it is taken from the worktree."
            )


def _not_committed(before: Side) -> str:
    """What the other revision may lack, for a run of it that failed; "" where the checkout has no such file."""
    with contextlib.suppress(RunError):
        lines = git(before.own, "status", "--porcelain", "--ignored=matching").splitlines()
        left = [line[3:].strip('"') for line in lines if line[:2] in ("??", "!!") and not line.endswith("__pycache__/")]
        if left:
            named = ", ".join(printable(name) for name in left[:3]) + (" and others" if len(left) > 3 else "")
            return f" The other revision has no files that are not committed: {named}."
    return ""
