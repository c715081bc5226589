"""Whether a recording may be written to a path, decided before the program runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

from neuron_explorer.errors import OutputError

__all__ = [
    "check_output", "claim_spool", "make_directory", "mapping_is_safe", "output_path", "part_name", "rank_of_part",
    "spool_path",
]  # fmt: skip

PART = "part_rank"
"""The partition key of a run's directory: another name than the column ``rank``, which pandas would not read twice."""

# Shared mappings lose data, or end the program with SIGBUS, when such a server goes away.
_NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre",
        "nfs", "nfs4", "pvfs2", "smb3", "smbfs",
    }
)  # fmt: skip


def output_path(path: str | os.PathLike[str], rank: int, world_size: int = 1, attempt: int = 0) -> Path:
    """The absolute path of the trace: a program that changes directory still finds it.

    No two ranks share a name. ``{rank}`` in ``path`` stands for the rank. Without it, a rank of
    several writes ``trace.rank0.parquet`` for ``trace.parquet`` (a name that says ``rank0`` by
    itself stays), and ``run/part_rank=0000/trace.parquet`` for the directory ``run/``, which query
    engines read as one table, partitioned by rank. When the launcher starts the ranks again
    (``attempt`` > 0), the name says that too.
    """
    return Path(os.path.abspath(_named(_text(path), str(rank), world_size, attempt)))


_IN_PART = r"trace(?:\.attempt\d+)?\.parquet(?:\.spool)?"


def part_name(rank: int | str, world_size: int = 1) -> str:
    """The folder of a rank in the directory of a run, so many digits wide that names sort as ranks do."""
    width = max(4, len(str(max(1, world_size) - 1)))
    return f"{PART}={str(rank).zfill(width)}"


def rank_of_part(name: str) -> int | None:
    """The rank that such a folder is for; None for another folder."""
    match = re.fullmatch(rf"{PART}=(\d{{1,9}})", name)
    return int(match[1]) if match is not None else None


def make_part(output: Path) -> None:
    """Create the folder of a rank, in the directory of its run. Raises ``OutputError``."""
    if rank_of_part(output.parent.name) is None or not output.parent.parent.is_dir():
        return
    try:
        output.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"The directory {output.parent} cannot be created: {error.strerror or error}; choose another path."
        ) from None


def is_directory_name(path: str | os.PathLike[str], world_size: int = 1) -> bool:
    """Whether the traces go into the directory ``path``."""
    text = _text(path)
    return text.endswith(("/", os.sep)) or (world_size > 1 and os.path.isdir(text))


def make_directory(path: str | os.PathLike[str]) -> None:
    """Create the directory that ``path`` names, if it ends as one. Raises ``OutputError``."""
    if not is_directory_name(path):
        return
    directory = os.path.abspath(_text(path))
    try:
        os.mkdir(directory)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise OutputError(f"{directory} is not a directory; choose another path for the trace.") from None
    except OSError as error:
        raise OutputError(
            f"The directory {directory} cannot be created: {error.strerror or error}; choose another path."
        ) from None


def rank_outputs(path: str | os.PathLike[str]) -> dict[int, list[Path]]:
    """The traces that ranks wrote for ``path``, and what interrupted recordings left, by rank."""
    found: dict[int, list[Path]] = {}
    text = _text(path)
    if is_directory_name(text, 2):
        for part in _entries(Path(os.path.abspath(text))):
            rank = rank_of_part(part.name)
            if rank is not None:
                written = [p for p in _entries(part) if re.fullmatch(_IN_PART, p.name)]
                if written:
                    found.setdefault(rank, []).extend(written)
        return dict(sorted(found.items()))
    mark = "\1"
    pattern = Path(os.path.abspath(_named(text, mark, 2, 0)))
    end = re.escape(pattern.suffix)
    name = re.escape(pattern.name).removesuffix(end).replace(mark, r"(\d+)")
    if mark in pattern.name:
        for file in _entries(pattern.parent):
            match = re.fullmatch(rf"{name}(?:\.attempt\d+)?{end}(?:\.spool)?", file.name)
            if match is not None:
                found.setdefault(int(match[1]), []).append(file)
    return dict(sorted(found.items()))


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _text(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not isinstance(text, str) or text == "":
        raise OutputError(f"The trace needs a file name (such as 'trace.parquet'), not {path!r}.")
    if "\0" in text:
        raise OutputError("The trace's file name holds a null character; choose another path.")
    return text


def _named(text: str, rank: str, world_size: int, attempt: int) -> str:
    again = f".attempt{attempt}" if attempt > 0 and world_size > 1 else ""
    if is_directory_name(text, world_size):
        return os.path.join(text.replace("{rank}", rank), part_name(rank, world_size), f"trace{again}.parquet")
    named = "{rank}" in text or re.search(rf"rank[-_]?0*{re.escape(rank)}(?!\d)", text) is not None
    stem, suffix = os.path.splitext(text.replace("{rank}", rank))
    return f"{stem}{'' if named or world_size < 2 else f'.rank{rank}'}{again}{suffix}"


def spool_path(output: Path) -> Path:
    """The directory that holds what is recorded until the trace is built."""
    return output.with_name(output.name + ".spool")


def check_output(output: Path, *, overwrite: bool) -> None:
    """Refuse an output that cannot be written or would lose something.

    Raises:
        OutputError: with what is wrong and the option or command that helps.
    """
    parent = output.parent
    if not parent.exists():
        raise OutputError(f"The directory {parent} does not exist; create it, or choose another path.")
    if not parent.is_dir():
        raise OutputError(f"{parent} is not a directory; choose another path for the trace.")
    if output.is_dir():
        raise OutputError(f"{output} is a directory; give a file name, such as {output / 'trace.parquet'}.")
    if os.path.lexists(output):
        if output.exists() and not output.is_file():
            raise OutputError(f"{output} is not a regular file; choose another path for the trace.")
        if not overwrite:
            raise OutputError(
                f"{output} exists; pass overwrite=True (on the command line --force) to replace it, "
                "or choose another path."
            )
    spool = spool_path(output)
    if os.path.lexists(spool):
        _check_leftover(spool, overwrite=overwrite)


def claim_spool(output: Path, *, overwrite: bool) -> Path:
    """Create the spool directory, which also proves that the place can be written.

    Raises:
        OutputError: as :func:`check_output`; also when another process was faster.
    """
    check_output(output, overwrite=overwrite)
    spool = spool_path(output)
    if os.path.lexists(spool):
        _remove_leftover(spool)
    try:
        spool.mkdir(mode=0o700)
        _prove_writable(spool)
    except FileExistsError:
        raise OutputError(
            f"Another process has just begun to record to {output}; give each process its own path "
            '("{rank}" in a path stands for the distributed rank).'
        ) from None
    except OSError as error:
        shutil.rmtree(spool, ignore_errors=True)
        raise OutputError(
            f"The trace cannot be written to {output.parent}: {error.strerror or error}; "
            "choose another path, or make room there."
        ) from None
    return spool


def mapping_is_safe(directory: Path) -> bool:
    """Whether files there may be written through shared mappings (not on network file systems)."""
    best, kind = "", ""
    target = os.path.realpath(directory)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                point = before.split(" ")[4].replace("\\040", " ")
                inside = target == point or target.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, after.split(" ")[0]
    except (OSError, IndexError):
        return True
    return kind not in _NETWORK_FILE_SYSTEMS


def _prove_writable(spool: Path) -> None:
    probe = spool / "probe"
    with open(probe, "wb") as file:
        file.write(b"\0" * 4096)
        file.flush()
        os.fsync(file.fileno())
    probe.unlink()


def _check_leftover(spool: Path, *, overwrite: bool) -> None:
    pid = living_writer(spool)
    if pid is not None:
        raise OutputError(
            f"Process {pid} is recording to {spool.with_suffix('')} right now; choose another path, or wait."
        )
    if not overwrite:
        raise OutputError(
            f"{spool} holds an interrupted recording: build its trace with `neuron-explorer recover {spool}`"
            ", or discard it with overwrite=True (on the command line --force)."
        )


def _remove_leftover(spool: Path) -> None:
    try:
        if spool.is_dir() and not spool.is_symlink():
            shutil.rmtree(spool)
        else:
            spool.unlink()
    except OSError as error:
        raise OutputError(
            f"The remains of an earlier recording, {spool}, cannot be removed: "
            f"{error.strerror or error}; remove them, or choose another path."
        ) from None


def living_writer(spool: Path) -> int | None:
    """The process that writes ``spool`` now, None when it is gone (or its id was given to another)."""
    try:
        with open(spool / "session.json", "rb") as file:
            session = json.loads(file.read(1 << 20))
        pid, began = int(session["pid"]), int(session["start_unix_ns"])
        if pid <= 0 or pid == os.getpid():  # this process's own earlier attempt
            return None
        os.kill(pid, 0)
    except PermissionError:
        return pid  # alive, of another user
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    started = _process_start_unix_ns(pid)
    # A process that began after the recording did is another one with a reused id. The clock
    # that the start is computed from has ticks of 10 ms.
    if started is not None and started > began + 1_000_000_000:
        return None
    return pid


def _process_start_unix_ns(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        return None
