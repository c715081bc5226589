"""Build the trace of a recording whose program died before it could."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import BadTraceError, NeuronExplorerError, OutputError
from .convert import ConvertResult, convert
from .output import living_writer
from .run_files import unfinished
from .sniff import is_spool, printable

__all__ = ["recover", "recover_all"]


def recover(
    spool_or_output: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> ConvertResult:
    """Write the trace of what was recorded, and remove the spool.

    ``spool_or_output`` is the ``.spool`` directory, or the path of the trace that was to be
    written. ``output`` defaults to that path. The result counts what was cut: records and
    table entries that were being written, and events whose end was never seen.

    Raises ``BadTraceError`` when there is no recording there, ``OutputError`` when the trace
    exists (without ``overwrite``) or cannot be written.
    """
    given = Path(spool_or_output)
    spool = given if is_spool(given) else given.with_name(given.name + ".spool")
    if not spool.is_dir():
        if given.is_dir():
            raise BadTraceError(f"{printable(given)} holds no recording; give a .spool directory.")
        if given.exists():
            raise BadTraceError(f"{printable(given)} has no unfinished recording beside it ({spool.name} is missing).")
        raise BadTraceError(f"{printable(given)} does not exist; give the .spool directory of a recording.")
    writer = living_writer(spool)
    if writer is not None:
        raise OutputError(f"Process {writer} is still recording to {printable(spool)}; end it first.")
    target = Path(output) if output is not None else _target(spool)
    if target.exists() and not overwrite:
        raise OutputError(f"{printable(target)} exists; use --force to overwrite it, or -o to name another file.")
    return convert(spool, target, recovered=True)


def recover_all(
    directory: Path, output: Path | None = None, *, overwrite: bool = False
) -> tuple[list[ConvertResult], list[tuple[Path, NeuronExplorerError]]]:
    """Recover every recording of a directory and of the folders of its ranks: results, and those that failed and why.

    Raises ``BadTraceError`` when there is none, ``OutputError`` when one ``output`` is given for all of them.
    """
    if output is not None:
        raise OutputError(f"-o names the trace of one recording; {printable(directory)} may hold several.")
    spools = unfinished(directory)
    if not spools:
        raise BadTraceError(f"{printable(directory)} holds no unfinished recording; there is nothing to recover.")
    done: list[ConvertResult] = []
    failed: list[tuple[Path, NeuronExplorerError]] = []
    for spool in spools:
        try:
            done.append(recover(spool, overwrite=overwrite))
        except NeuronExplorerError as error:
            failed.append((spool, error))
    return done, failed


def _target(spool: Path) -> Path:
    # The name of the directory, not the one that session.json holds: that file is not trusted.
    name = spool.resolve().name
    return spool.parent / (name[: -len(".spool")] if name.endswith(".spool") else f"{name}.parquet")
