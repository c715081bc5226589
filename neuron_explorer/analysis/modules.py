"""Many module paths, one pattern: ``layers.0.mlp`` … ``layers.11.mlp`` → ``layers.*.mlp``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def module_pattern(names: Iterable[str | None]) -> str:
    """One text for a set of module paths.

    Numbered parts that differ become ``*``. Paths of several shapes give the commonest
    pattern and ``+n`` for the others; "" when there is no path.
    """
    paths = sorted({name for name in names if name})
    if not paths:
        return ""
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for path in paths:
        parts = path.split(".")
        key = tuple("*" if part.isdigit() else part for part in parts)
        groups.setdefault(key, []).append(parts)
    counts = Counter({key: len(members) for key, members in groups.items()})
    best = min(groups, key=lambda key: (-counts[key], key))
    text = ".".join(_merged(groups[best]))
    return f"{text} +{len(groups) - 1}" if len(groups) > 1 else text


def _merged(members: list[list[str]]) -> list[str]:
    return [column[0] if len(set(column)) == 1 else "*" for column in zip(*members, strict=True)]


def wildcard(path: str) -> str:
    """A path with every number replaced: the same for all layers of a stack."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def ancestors(path: str) -> list[str]:
    """The path and its parents, innermost first: ``a.b.c`` → [a.b.c, a.b, a]."""
    parts = path.split(".")
    return [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
