"""JSON traces: one file, or those of a directory, whoever wrote each of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ...errors import BadTraceError
from ..sniff import printable
from .chrome_json.head import head_of
from .kineto.content import is_kineto
from .report import ImportReport, Progress, Skipped

__all__ = ["JsonFiles", "json_files", "outputs_of", "read_files", "read_json"]

MAX_DEPTH: Final = 3
MAX_FILES: Final = 10_000
"""Files of a directory that are looked at."""
MAX_TRACES: Final = 2_000
_PLAIN: Final = (".parquet", ".py", ".log", ".so", ".png", ".txt")
"""Ends of names of files that are not even opened."""
_NAMED: Final = 5


@dataclass
class JsonFiles:
    """``traces``: the file, and whether torch.profiler wrote it."""

    traces: list[tuple[Path, bool]] = field(default_factory=list)
    others: int = 0
    unreadable: int = 0
    named: list[str] = field(default_factory=list)
    named_unreadable: list[str] = field(default_factory=list)
    ended: str = ""

    def skipped(self) -> tuple[Skipped, ...]:
        """What a report says of the directory's other files."""
        found = []
        if self.others:
            why = _names(self.named, self.others)
            found.append(Skipped("files that are no traces", self.others, f"of no format that is read here: {why}",
                                 harmless=True))  # fmt: skip
        if self.unreadable:
            why = _names(self.named_unreadable, self.unreadable)
            found.append(Skipped("files that cannot be read", self.unreadable, f"no permission: {why}"))
        if self.ended:
            found.append(Skipped("directories that were not looked at to their end", 1, self.ended))
        return tuple(found)


def json_files(path: Path, most: int = MAX_TRACES, torch: bool = False) -> JsonFiles:
    """The JSON traces, by name. Links to directories are not followed; ``torch``: ends at torch.profiler's first."""
    found = JsonFiles()
    if not path.is_dir():
        head = head_of(path)
        if head:
            found.traces.append((path, is_kineto(head)))
        return found
    looked = 0
    base = len(path.parts)
    for folder, folders, files in os.walk(path):
        below = len(Path(folder).parts) - base < MAX_DEPTH
        folders[:] = sorted(f for f in folders if below and not f.startswith("."))
        for name in sorted(files):
            if name.startswith("."):
                continue
            looked += 1
            if looked > MAX_FILES:
                found.ended = f"it holds more than {MAX_FILES:,} files"
                return found
            if len(found.traces) >= most:
                found.ended = f"it holds more than {most:,} traces"
                return found
            file = Path(folder, name)
            shown = printable(os.path.relpath(file, path))[:100]
            # By content; what is plainly something else is not even opened.
            head = b"" if name.endswith(_PLAIN) else head_of(file)
            if head:
                kineto = is_kineto(head)
                found.traces.append((file, kineto))
                if torch and kineto:
                    return found
            elif file.is_file() and not os.access(file, os.R_OK):
                found.unreadable += 1
                found.named_unreadable += [shown][: _NAMED - len(found.named_unreadable)]
            else:
                found.others += 1
                found.named += [shown][: _NAMED - len(found.named)]
    return found


def outputs_of(files: Sequence[Path], output: Path) -> list[Path]:
    """The traces that are written: for several files one each, in a directory, named like the files."""
    if len(files) < 2:
        return [output]
    from . import default_output

    folder = output if output.suffix != ".parquet" else output.with_name(f"{output.stem}-traces")
    taken: Counter[str] = Counter()
    outputs = []
    for file in files:
        name = default_output(file).name.removesuffix(".parquet")
        taken[name] += 1
        outputs.append(folder / (f"{name}.parquet" if taken[name] == 1 else f"{name}-{taken[name]}.parquet"))
    return outputs


def read_files(path: Path, output: Path, progress: Progress | None, torch: bool) -> ImportReport:
    """Write the trace of a file, or of each of a directory's. ``torch``: how to read a file of whatever kind."""
    if not path.is_dir():
        return read_json(path, output, progress, torch=torch)
    found = json_files(path)
    beside = found.skipped()
    if not found.traces:
        raise BadTraceError(f"{printable(path)} holds no trace in JSON.")
    if len(found.traces) == 1:
        ((file, kineto),) = found.traces
        return read_json(file, output, progress, torch=kineto, beside=beside)
    from .kineto.several import read_all

    of_torch = dict(found.traces)
    files = list(of_torch)
    report = read_all(
        files, outputs_of(files, output), lambda f, o, p: read_json(f, o, p, torch=of_torch[f], beside=beside), progress
    )
    # Each trace's report says what else the directory holds: once is enough.
    once = {s.what: s for s in beside}
    return replace(report, skipped=tuple(once.get(s.what, s) for s in report.skipped))


def read_json(
    path: Path, output: Path, progress: Progress | None, *, torch: bool, beside: tuple[Skipped, ...] = ()
) -> ImportReport:
    """Write the trace of one file. ``beside``: what was left out beside it, for its report."""
    from .chrome_json.importing import import_file

    if torch:
        from .kineto.categories import KINETO, device_type, step_number

        return import_file(path, output, KINETO, progress, device_type=device_type, step_number=step_number,
                           beside=beside)  # fmt: skip
    from .chrome_json.generic import GENERIC, sources

    return import_file(path, output, GENERIC, progress, sources=sources, beside=beside)


def _names(names: Sequence[str], number: int) -> str:
    return ", ".join(names) + (f" and {number - len(names):,} more" if number > len(names) else "")
