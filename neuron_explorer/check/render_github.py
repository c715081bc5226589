"""Findings as workflow commands of GitHub, which show them beside the lines of a pull request."""

from __future__ import annotations

import posixpath
from typing import Final

from neuron_explorer.check.result import Result
from neuron_explorer.check.words import budget_line, cause, from_to, name_of

MOST_ANNOTATIONS: Final = 10


def github_annotations(result: Result, folder: str = "") -> list[str]:
    """Workflow commands that show findings beside the lines of a pull request; at most ten.

    ``folder``: where the program ran, relative to the repository: GitHub knows files from there.
    """
    lines = []
    for d in result.blocking:
        if len(lines) == MOST_ANNOTATIONS:
            break
        where = f" file={_property(_in(folder, d.file))},line={d.line}" if d.file and d.line > 0 else ""
        lines.append(f"::error{where}{',' if where else ' '}title={_property(d.group.title)}::"
                     f"{_data(f'{name_of(d)}: {from_to(d)}. Likely: {cause(d, result.blocking)}')}")  # fmt: skip
    for budget in result.exceeded:
        if len(lines) == MOST_ANNOTATIONS:
            break
        file, line = next(((f, n) for _, _, f, n in budget.places if f and n > 0), ("", -1))
        where = f" file={_property(_in(folder, file))},line={line}," if file else " "
        lines.append(f"::error{where}title={_property(budget.kind.name)}::{_data(budget_line(budget))}")
    return lines


def _in(folder: str, file: str) -> str:
    return posixpath.normpath(posixpath.join(folder, file.replace("\\", "/"))) if folder else file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
