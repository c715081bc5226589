"""What the log's records say in words: stacks, graph breaks, reasons to compile again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...compiles import Place
from ...recorders.compiler_breaks import read_break
from .values import is_int

__all__ = ["BreakRecord", "backend_of_failure", "break_of", "frames_of", "is_limit", "limit_of", "reasons_of"]

MAX_FRAMES: Final = 200
MAX_REASONS: Final = 64
MAX_STORED: Final = 4000

_AT: Final = re.compile(r"\s*Graph break in user code at (?P<file>[^\n]+):(?P<line>\d{1,9})[ \t]*(?:\n|$)")
_LABEL: Final = re.compile(r"\s*(?:Graph Break )?Reason:[ \t]*")
_ATTEMPT: Final = re.compile(r"\s*Encountered graph break when attempting to trace [^\n]*\n")
_STACK: Final = re.compile(r"\n(?:User code traceback|User stack trace|The most recent call[^\n]*|"
                           r"Traceback \(most recent call last\)):?[ \t]*(?:\n|$)")  # fmt: skip
_FRAME: Final = re.compile(r'^\s*File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)$', re.MULTILINE)
_LIMIT_TYPES: Final = ("RecompileLimitExceeded", "CacheLimitExceeded", "FailOnRecompileLimitHit", "FailOnCacheLimitHit")
_LIMIT_TEXT: Final = re.compile(r"recompile limit exceeded|(?:recompile|cache_size)_limit reached", re.IGNORECASE)
_BACKEND: Final = re.compile(r"backend='([^'\n]{1,200})' raised")


@dataclass(frozen=True)
class BreakRecord:
    """A graph break as the log tells it; ``callers`` innermost first, without the line itself."""

    place: Place
    type: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    callers: tuple[Place, ...]


def break_of(text: str) -> BreakRecord:
    """Take a ``dynamo_graph_break_reason`` apart; a text of another form is the reason as a whole."""
    at = _AT.match(text)
    rest = text[at.end() :] if at else text
    stack = _STACK.search("\n" + rest)
    message = rest[: max(0, stack.start() - 1)] if stack else rest
    tail = ("\n" + rest)[stack.end() :] if stack else ""
    tail = tail.split("\nTraceback (most recent call last)", 1)[0]
    label = _LABEL.match(message)
    message = message[label.end() :] if label else message
    attempt = _ATTEMPT.match(message)
    message = message[attempt.end() :] if attempt else message
    frames = [Place(m[1], int(m[2]), m[3].strip()) for m in _FRAME.finditer(tail)][-MAX_FRAMES:]
    read = read_break(message.lstrip("\n"))
    if frames and (at is None or frames[-1].line == int(at["line"])):
        place, frames = frames[-1], frames[:-1]
    elif at is not None:
        place = Place(at["file"].strip(), int(at["line"]))
    else:
        place = Place("", -1)
    return BreakRecord(
        place, read.type, read.reason, read.explanation, read.hints, tuple(reversed(frames))
    )  # fmt: skip


def frames_of(stack: Any, strings: Mapping[int, str]) -> list[Place]:
    """The frames of a record's stack, outermost first as it is written; file names are looked up in ``strings``."""
    frames = []
    for entry in stack[-MAX_FRAMES:] if isinstance(stack, list) else ():
        if not isinstance(entry, dict):
            continue
        file = entry.get("filename")
        if is_int(file):
            file = strings.get(file, f"<file {file} of the log>")
        line, name = entry.get("line"), entry.get("name")
        frames.append(
            Place(
                file if isinstance(file, str) else "?",
                line if is_int(line) and 0 <= line < 1 << 31 else -1,
                name[:500] if isinstance(name, str) else "",
            )
        )
    return frames


def reasons_of(payload: str) -> list[str]:
    """The texts of a ``recompile_reasons`` artifact: a JSON list of texts, or one bare text."""
    text = payload.strip()
    if text.startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return [reason for reason in found if isinstance(reason, str)][:MAX_REASONS]
    if text.startswith('"'):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, str):
            return [found]
    return [text] if text else []


def is_limit(metrics: Mapping[str, Any]) -> bool:
    """Whether Dynamo gave up here instead of compiling."""
    reason = metrics.get("fail_reason")
    return metrics.get("fail_type") in _LIMIT_TYPES or (isinstance(reason, str) and bool(_LIMIT_TEXT.search(reason)))


def limit_of(metrics: Mapping[str, Any]) -> tuple[int, int]:
    """Dynamo's limits for one place and for all of a function's caches together; -1 where the log has none."""
    config = metrics.get("dynamo_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return -1, -1
    if not isinstance(config, dict):
        return -1, -1
    return (
        _number(config, "recompile_limit", "cache_size_limit"),
        _number(config, "accumulated_recompile_limit", "accumulated_cache_size_limit"),
    )


def backend_of_failure(reason: str) -> str:
    """The backend that a failure names, "" without one."""
    found = _BACKEND.search(reason)
    return found[1] if found else ""


def _number(config: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = config.get(name)
        if is_int(value) and 0 <= value < 1 << 31:
            return int(value)
    return -1
