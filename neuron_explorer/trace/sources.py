"""The text of the user's files: only what ran, and only when it is what ran."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Final

from .compile_detail import places_of
from .compiles import Compiles
from .paths import PathRules
from .spool_reader import ProcessSpool

MAX_BYTES: Final = 1 << 20
MAX_FILES: Final = 2000


@dataclass
class SourceFile:
    """What is known of one file: the code objects and lines of it that frames name."""

    shown: str
    path: str
    codes: set[tuple[str, int]] = field(default_factory=set)  # last part of the qualified name, first line
    lines: set[int] = field(default_factory=set)
    spans: set[tuple[str, int]] = field(default_factory=set)  # a code object's name and a line of its
    known_text: str | None = None  # text that the recording brought along (a notebook cell)


def collect_sources(
    files: Iterable[SourceFile], mode: str, started_unix_ns: int
) -> tuple[dict[str, str], dict[str, str]]:
    """(shown name → text, shown name → why its text is not embedded).

    ``mode`` is "all", "lines" (only the lines that frames name, at their numbers) or "none".
    Text from the disk is taken only when it was last changed before ``started_unix_ns`` and
    compiling it gives every code object that ran.
    """
    texts: dict[str, str] = {}
    refused: dict[str, str] = {}
    if mode not in ("all", "lines"):
        return texts, refused
    for number, file in enumerate(files):
        text, reason = (None, "too many files") if number >= MAX_FILES else _text_of(file, started_unix_ns)
        if text is None:
            refused[file.shown] = reason
        else:
            texts[file.shown] = _only(text, file.lines) if mode == "lines" else text
    return texts, refused


def _text_of(file: SourceFile, started_unix_ns: int) -> tuple[str | None, str]:
    if file.known_text is not None:
        fits = len(file.known_text.encode("utf-8", "replace")) <= MAX_BYTES
        return (file.known_text, "") if fits else (None, "larger than 1 MB")
    if not file.path:
        return None, "exists only in memory"
    try:
        # Not a FIFO or a device, even one that appears under the name of a source file.
        descriptor = os.open(file.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):
        return None, "not found"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None, "not a regular file"
        if status.st_size > MAX_BYTES:
            return None, "larger than 1 MB"
        if started_unix_ns and status.st_mtime_ns > started_unix_ns:
            return None, "changed after the recording began"
        data = os.read(descriptor, MAX_BYTES + 1)
    except OSError:
        return None, "cannot be read"
    finally:
        os.close(descriptor)
    return _checked(data, file)


def _checked(data: bytes, file: SourceFile) -> tuple[str | None, str]:
    import io
    import tokenize
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(data, file.shown, "exec", dont_inherit=True)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding, errors="replace", newline=None).read()
    except (SyntaxError, ValueError, MemoryError, RecursionError, LookupError):
        return None, "does not compile"
    there = _code_objects(code)
    if any(first not in there[name] for name, first in file.codes):
        return None, "differs from what ran"
    # Of a function that only a compiler saw the first line is not always known.
    if not file.codes and not file.spans <= _lines_of(code, file.spans):
        return None, "differs from what ran"
    return text, ""


def _lines_of(code: CodeType, wanted: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Which of the (name, line) lie inside a code object of that name."""
    found: set[tuple[str, int]] = set()
    pending: list[CodeType] = [code]
    while pending and len(found) < len(wanted):
        one = pending.pop()
        lines = {line for _, _, line in one.co_lines() if line} | {one.co_firstlineno}
        found |= {(name, line) for name, line in wanted if name == one.co_name and min(lines) <= line <= max(lines)}
        pending.extend(c for c in one.co_consts if isinstance(c, CodeType))
    return found


def _code_objects(code: CodeType) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    pending: list[CodeType] = [code]
    while pending:
        one = pending.pop()
        found[one.co_name].add(one.co_firstlineno)
        pending.extend(c for c in one.co_consts if isinstance(c, CodeType))
    return found


def _only(text: str, lines: set[int]) -> str:
    kept = [line if number in lines else "" for number, line in enumerate(text.split("\n"), 1)]
    while kept and not kept[-1]:
        kept.pop()
    return "\n".join(kept) + "\n"


def source_files(processes: Iterable[ProcessSpool], rules: PathRules) -> list[SourceFile]:
    """The user files that frames of these processes name."""
    found: dict[str, SourceFile] = {}
    for process in processes:
        tables = process.tables
        used: dict[int, set[int]] = defaultdict(set)
        for code, line in zip(tables.frame_code, tables.frame_line, strict=True):
            used[code].add(line)
        for number, lines in used.items():
            filename, qualname, first = tables.codes[number]
            info = rules.info(filename)
            if not info.user:
                continue
            file = found.setdefault(info.shown, SourceFile(info.shown, info.path))
            file.lines |= lines
            if not _made_by_a_compiler(qualname):
                file.codes.add((qualname.rpartition(".")[2], first))
            if file.known_text is None:
                file.known_text = tables.sources.get(filename)
    return list(found.values())


def add_compiled(
    files: list[SourceFile], compiles: Iterable[Compiles], processes: Iterable[ProcessSpool], rules: PathRules
) -> None:
    """Add the user files and lines that compilations name: code that a compiler read ran as what it made of it."""
    found = {file.shown: file for file in files}
    texts = {process.pid: process.tables.sources for process in processes}
    for one in compiles:
        for place in places_of(one):
            info = rules.info(place.file)
            if not info.user or place.line < 1 or not place.function:
                continue
            made = _made_by_a_compiler(place.function)
            file = found.get(info.shown)
            if file is None:
                if made:
                    continue
                file = found[info.shown] = SourceFile(info.shown, info.path)
                file.known_text = texts.get(one.pid, {}).get(place.file)
                files.append(file)
            file.lines.add(place.line)
            name = place.function.rpartition(".")[2]
            if not made:
                file.spans.add((name, place.line))


def _made_by_a_compiler(qualname: str) -> bool:
    """Code that Dynamo made out of the user's: its name is not in the file."""
    return "torch_dynamo_resume_in" in qualname
