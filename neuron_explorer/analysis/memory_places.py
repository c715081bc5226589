"""Blocks of memory summed by the line, the module or the category that allocated them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.memory_blocks import Blocks, Rows
from neuron_explorer.analysis.memory_categories import CATEGORIES
from neuron_explorer.analysis.modules import wildcard

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_NAMES: Final = 4096
"""Operators that are looked up for one table."""


@dataclass(frozen=True)
class Share:
    """Blocks that were allocated at one place. ``bytes`` is the sum, ``largest`` one block's; ``members``:
    positions among the blocks; ``row``: of the row that allocated the largest, -1 for none.
    """

    file: str
    line: int
    function: str
    module: str
    category: str
    phase: str
    bytes: int
    blocks: int
    largest: int
    row: int
    members: np.ndarray


def by_line(found: Blocks, members: np.ndarray, category: np.ndarray) -> list[Share]:
    """By file and line; most bytes first. Blocks from before the recording have no line."""
    rows = found.rows
    file, line = _of(rows.file.codes, found.row[members]), _of(rows.line, found.row[members])
    return _shares(found, members, category, np.stack([file, np.where(file < 0, -1, line)], axis=1))


def by_module(found: Blocks, members: np.ndarray, category: np.ndarray) -> list[Share]:
    """By module, those that differ only in a number as one (`layers.*.mlp`); most bytes first."""
    module = found.rows.module
    patterns = {text: code for code, text in enumerate(dict.fromkeys(map(wildcard, module.values)))}
    merged = np.array([*(patterns[wildcard(text)] for text in module.values), -1])
    code = merged[_of(module.codes, found.row[members])]
    names = [*patterns, ""]
    return [replace(s, module=names[merged[module.codes[s.row]] if s.row >= 0 else -1])
            for s in _shares(found, members, category, code[:, None])]  # fmt: skip


def by_category(found: Blocks, members: np.ndarray, category: np.ndarray) -> list[Share]:
    """By category; most bytes first."""
    return _shares(found, members, category, category[members][:, None])


def _of(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.append(values, -1)[rows]  # -1: no row


def _shares(found: Blocks, members: np.ndarray, category: np.ndarray, key: np.ndarray) -> list[Share]:
    if not len(members):
        return []
    _, index = np.unique(key, axis=0, return_inverse=True)
    index = index.reshape(-1)
    # Largest block of each group first; among equal ones the one that was allocated first.
    order = np.lexsort((found.born[members], -found.bytes[members], index))
    cuts = np.flatnonzero(np.diff(index[order], prepend=-1))
    shares = [_share(found, members[part], category) for part in np.split(order, cuts[1:])]
    shares.sort(key=lambda s: (-s.bytes, s.file, s.line, s.module, s.category))
    return shares


def _share(found: Blocks, members: np.ndarray, category: np.ndarray) -> Share:
    rows, row = found.rows, int(found.row[members[0]])
    weights = np.bincount(category[members], found.bytes[members].astype(float), len(CATEGORIES))
    file = rows.file.at(row)
    return Share(
        file, int(rows.line[row]) if file else -1, rows.function.at(row), rows.module.at(row),
        CATEGORIES[int(np.argmax(weights))], rows.phase.at(row), int(found.bytes[members].sum()), len(members),
        int(found.bytes[members[0]]), row, members,
    )  # fmt: skip


def operators(trace: Trace, rows: Rows, wanted: list[int]) -> dict[int, str]:
    """The operator inside which each of these rows was written, by row."""
    parents = {row: int(rows.parent[row]) for row in wanted[:MOST_NAMES] if row >= 0 and rows.parent[row] >= 0}
    if not parents:
        return {}
    listed = ", ".join(str(p) for p in sorted(set(parents.values())))
    table = trace.sql_arrow(f"SELECT id, coalesce(name, '') AS name FROM events WHERE id IN ({listed})").to_pydict()
    names = dict(zip(table["id"], table["name"], strict=True))
    return {row: names.get(parent, "") for row, parent in parents.items()}
