"""Reads what a program of ``tests/programs`` says should be seen, from its own comments.

A program is a module with ``main()`` (or ``main(step)``), which returns tensors. Beside each
line that runs ops stands a trailing comment::

    y = a @ b  # expect: aten::mm module=fc backward=MmBackward0; aten::add x2

``;`` separates items. An item is a name, an optional count (``x2`` exactly two rows, else one
or more) and ``key=value`` pairs:

- the name: an operator without its overload (``aten::add``), ``a|b`` alternatives, a trailing
  ``*`` for a prefix, ``any`` for "something ran here, whatever it is called", ``maybe`` for
  "something may run here".
- ``kind=``, ``phase=``, ``module=`` (``<root>`` for a model itself), ``function=``,
  ``attribution=``, ``process=child``, ``thread=other``: what the row must say. The kind is
  ``op`` unless given.
- ``backward=A,B``: autograd nodes that must carry this line as well, in phase backward.
- ``line=+1`` or ``line=NAME``: the row carries another line: an offset, or the line that ends
  in ``# mark: NAME`` (a mark may stand before or after an expectation).
- ``only=native``: not claimed for the Python twin.

A text that is executed under a file name of its own, or written to a module, is marked inside
the text: ``# begin: NAME`` is line 1 of the file NAME, ``# end`` closes it.

A line ``# program: key=value …`` near the top sets options of the whole program: ``path=`` (the
name it is run under), ``lenient`` (lines without an expectation may run ops too), ``own_process``,
``only=native``, ``nomode`` (cannot run under the dispatch mode that checks the comments),
``steps=RULE:COUNT``, ``tracing`` (a compiler traces: some ops are counted and not written).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent.parent / "programs"

_EXPECT = re.compile(r"#\s*expect:\s*(.*?)\s*(?:\s#|$)")
_MARK = re.compile(r"#\s*mark:\s*(\w+)")
_BEGIN = re.compile(r"#\s*begin:\s*(\S+)")
_END = re.compile(r"#\s*end\s*$")
_OPTIONS = re.compile(r"^#\s*program:\s*(.*)$", re.MULTILINE)
_KEYS = {
    "kind", "phase", "module", "function", "attribution", "process", "thread", "backward", "line", "only",
}  # fmt: skip


@dataclass(frozen=True)
class Expectation:
    """One item: rows of this name must carry this file and line."""

    file: str
    line: int
    names: tuple[str, ...]
    count: int | None
    kind: str = "op"
    backward: tuple[str, ...] = ()
    only: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    """Column → required text, for phase, module, function, attribution, process, thread."""

    def __str__(self) -> str:
        extra = " ".join(f"{k}={v}" for k, v in self.fields.items())
        return f"{self.file}:{self.line} {'|'.join(self.names)} {extra}".strip()


@dataclass(frozen=True)
class Program:
    """A program's text, options and expectations."""

    name: str
    path: Path
    run_as: str
    options: dict[str, str]
    expectations: tuple[Expectation, ...]
    lines: frozenset[tuple[str, int]]
    """Every (file name, line) that may carry a row."""

    @property
    def files(self) -> frozenset[str]:
        """Names of the files that this program's lines can be in."""
        return frozenset(f for f, _ in self.lines) | {Path(self.run_as).name}


def load_program(path: Path) -> Program:
    """Parse one program; raises ValueError for a comment that does not follow the format."""
    text = path.read_text(encoding="utf-8")
    options: dict[str, str] = {}
    for match in _OPTIONS.finditer(text):
        for word in re.findall(r"(?:[^\s\"]|\"[^\"]*\")+", match.group(1)):
            key, _, value = word.partition("=")
            options[key] = value.strip('"') or "yes"
    run_as = options.get("path", path.name)
    main_file = Path(run_as).name
    marks: dict[str, tuple[str, int]] = {}
    found: list[tuple[str, int, str]] = []
    inner: tuple[str, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if begin := _BEGIN.search(line):
            inner = (begin.group(1), number)
        file, here = (main_file, number) if inner is None else (inner[0], number - inner[1] + 1)
        if _END.search(line):
            inner = None
        if mark := _MARK.search(line):
            marks[mark.group(1)] = (file, here)
        if expect := _EXPECT.search(line):
            found.append((file, here, expect.group(1)))
    expectations = tuple(
        _item(file, line, item.strip(), marks) for file, line, items in found for item in items.split(";")
    )
    lines = frozenset((e.file, e.line) for e in expectations)
    return Program(path.stem, path, run_as, options, expectations, lines)


def _item(file: str, line: int, text: str, marks: dict[str, tuple[str, int]]) -> Expectation:
    names, *words = text.split()
    count: int | None = None
    fields: dict[str, str] = {}
    for word in words:
        if re.fullmatch(r"x\d+", word):
            count = int(word[1:])
            continue
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS:
            raise ValueError(f"{file}:{line}: cannot read {word!r} in the expectation {text!r}")
        fields[key] = value
    where = fields.pop("line", "")
    if where[:1] in ("+", "-"):
        line += int(where)
    elif where:
        file, line = marks[where]
    return Expectation(
        file=file,
        line=line,
        names=tuple(names.split("|")),
        count=count,
        kind=fields.pop("kind", "op"),
        backward=tuple(n for n in fields.pop("backward", "").split(",") if n),
        only=fields.pop("only", ""),
        fields=fields,
    )


def all_programs() -> list[Program]:
    """Every program, by name."""
    return [load_program(p) for p in sorted(PROGRAMS.glob("*.py"))]


def name_matches(wanted: str, name: str) -> bool:
    """Whether a row's name is the wanted one: overload and engine prefix do not matter."""
    if wanted == "any":
        return True
    if wanted.endswith("*"):
        return name.startswith(wanted[:-1])
    plain = name.rsplit(": ", 1)[-1]
    return wanted in (name, plain) or ("::" in plain and plain.partition(".")[0] == wanted)
