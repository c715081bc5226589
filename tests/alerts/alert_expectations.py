"""The alerts that a program's comments ask for.

A line may end in ``# alert: KIND key=value … ; KIND …``: an alert of this kind stands at this
line of this file. Keys are fields of an alert: text is compared (``a|b`` for alternatives), a
number too, ``advice``, ``guard``, ``title`` and ``evidence`` are searched for a regular expression.
``caller=NAME`` is the line that ends in ``# mark: NAME``; ``elsewhere=yes``: the alert stands in a
library. A program must have exactly the alerts that it asks for: one
that asks for none must be silent.

``# program: key=value …`` sets options: ``device=neuron`` needs the emulated device,
``needs=PACKAGE`` another package, ``only=native``: the Python recorder does not see it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent.parent / "programs" / "compiled"

_ALERT = re.compile(r"#\s*alert:\s*(.+)$")
_MARK = re.compile(r"#\s*mark:\s*(\w+)")
_OPTIONS = re.compile(r"^#\s*program:\s*(.*)$", re.MULTILINE)
_SEARCHED = ("advice", "guard", "title", "evidence")
_KEYS = (*_SEARCHED, "severity", "cause", "source", "expected", "actual", "dimension", "count", "nth", "limit",
         "function", "caller", "backend", "elsewhere")  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """An alert: its kind, its line (-1: in a library), and what its fields must say."""

    kind: str
    line: int
    fields: dict[str, str]
    caller: int = -1


@dataclass(frozen=True)
class Program:
    """A program and its expected alerts."""

    name: str
    path: Path
    options: dict[str, str]
    alerts: tuple[Wanted, ...]


def load(path: Path) -> Program:
    """Parse one program; raises ValueError for a comment that does not follow the format."""
    text = path.read_text(encoding="utf-8")
    options = dict(word.partition("=")[::2] for m in _OPTIONS.finditer(text) for word in m[1].split())
    lines = text.splitlines()
    marks = {m[1]: n for n, line in enumerate(lines, 1) if (m := _MARK.search(line))}
    wanted = []
    for number, line in enumerate(lines, 1):
        found = _ALERT.search(line)
        for item in found[1].split(" ; ") if found else ():
            kind, *words = shlex.split(item.replace("\\", "\\\\"))
            fields = dict(word.partition("=")[::2] for word in words)
            if unknown := set(fields) - set(_KEYS):
                raise ValueError(f"{path.name}:{number}: no field of an alert: {', '.join(sorted(unknown))}")
            caller = fields.pop("caller", "")
            line = -1 if fields.pop("elsewhere", "") else number
            wanted.append(Wanted(kind, line, fields, marks[caller] if caller else -1))
    return Program(path.stem, path, options, tuple(wanted))


def all_programs() -> list[Program]:
    """Every program, by name."""
    return [load(path) for path in sorted(PROGRAMS.glob("*.py"))]


def differences(program: Program, alerts: list[Any]) -> list[str]:
    """In words, what is not as the program's comments say."""
    left = list(alerts)
    problems = []
    for wanted in program.alerts:
        here = [a for a in left if a.kind == wanted.kind and wanted.line in (a.line, -1)]
        here = [a for a in here if a.source == wanted.fields.get("source", a.source)] or here
        if not here:
            problems.append(f"line {wanted.line}: no alert {wanted.kind}")
            continue
        left.remove(here[0])
        problems += [f"line {wanted.line}: {wanted.kind}: {problem}" for problem in _fields(program, wanted, here[0])]
    problems += [f"unexpected: {_shown(a)}" for a in left]
    if problems:
        problems += [f"    there is: {_shown(a)}" for a in alerts]
    return problems


def _fields(program: Program, wanted: Wanted, alert: Any) -> list[str]:
    problems = []
    if (alert.file.rsplit("/", 1)[-1] == program.path.name) != (wanted.line >= 0):
        problems.append(f"the file is {alert.file}")
    if wanted.caller >= 0 and (alert.caller_line, Path(alert.caller_file).name) != (wanted.caller, program.path.name):
        problems.append(f"the caller is {alert.caller_file}:{alert.caller_line}, not line {wanted.caller}")
    if not alert.advice or not alert.title or not alert.evidence or (wanted.line >= 0 and not alert.code):
        problems.append("it lacks advice, title, evidence or source text")
    for key, value in wanted.fields.items():
        found = str(getattr(alert, key))
        same = re.search(value, found, re.DOTALL) if key in _SEARCHED else found in value.split("|")
        if not same:
            problems.append(f"{key} is {found!r}, not {value!r}")
    return problems


def _shown(alert: Any) -> str:
    keys = ("kind", "line", *_KEYS[: _KEYS.index("elsewhere")])
    return " ".join(f"{key}={getattr(alert, key)!r}" for key in keys)
