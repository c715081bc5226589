"""Whose the files are that a log of another machine names."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from ...compile_detail import files_of
from ...compiles import Compiles, Place
from ...paths import PathRules

__all__ = ["names_directories", "path_rules", "with_users_callers"]

_NO_PROJECT: Final = ("", "/", "/home", "/Users")  # below these, the next directory is a person's name


def path_rules(compiles: list[Compiles], files: set[str]) -> PathRules:
    """Rules for paths of another machine: torch is where its own files are, the project what is common to the rest."""
    torch = sorted({found for file in files if (found := _torch_directory(file))})[:20]
    named = {file for one in compiles for file in files_of(one) if os.path.isabs(file)}
    torch += sorted({found for file in named if (found := _torch_directory(file))} - set(torch))[:20]
    rules = PathRules({"user_code": {"exclude": torch}})
    users = [os.path.dirname(os.path.normpath(file)) for file in named if rules.info(file).user]
    try:
        project = os.path.commonpath(users) if users else ""
    except ValueError:
        project = ""
    return PathRules({"user_code": {"exclude": torch}, "cwd": "" if project in _NO_PROJECT else project})


def names_directories(compiles: list[Compiles], rules: PathRules) -> bool:
    """Whether a file is shown with its directories all the same: files that have none in common with the rest."""
    return any(os.path.isabs(rules.info(file).shown) for one in compiles for file in files_of(one))


def _torch_directory(file: str) -> str:
    """``/x/torch`` of ``/x/torch/_dynamo/convert_frame.py``."""
    for part in ("_dynamo", "_inductor", "_functorch"):
        head, found, _ = file.partition(f"/torch/{part}/")
        if found and os.path.isabs(head or "/"):
            return f"{head}/torch"
    return ""


def with_users_callers(compiles: Compiles, rules: PathRules) -> Compiles:
    """The same with the user's callers only, as a recording has them; all where none is the user's."""

    def users(callers: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(place for place in callers if rules.info(place.file).user) or callers

    return replace(
        compiles,
        compilations=tuple(replace(c, callers=users(c.callers)) for c in compiles.compilations),
        breaks=tuple(replace(b, callers=users(b.callers)) for b in compiles.breaks),
        limits=tuple(replace(x, callers=users(x.callers)) for x in compiles.limits),
    )
