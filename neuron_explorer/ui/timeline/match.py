"""Which events a search or a filter means, and the pixels they are in.

A query is words, all of which must match. ``op:NAME``, ``line:FILE:LINE``,
``module:PATH``, ``shape:TEXT``, ``phase:NAME``, ``kind:NAME`` and ``step:NUMBER`` look at one
column; any other word is looked for in names, modules and ``file:line``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.tiles import BINS, tile_span

MAX_QUERY: Final = 500
MAX_WORDS: Final = 12
FIELDS: Final = ("op", "line", "module", "shape", "phase", "kind", "step")
_LINE: Final = re.compile(r"(.+):(\d{1,9})$", re.DOTALL)


@dataclass(frozen=True)
class Term:
    """One word of a query: the field it looks at ("" for any) and the text."""

    field: str
    text: str


@dataclass(frozen=True)
class Match:
    """The matching events. ``positions``: base positions in ascending order."""

    index: Index
    positions: np.ndarray

    @property
    def nbytes(self) -> int:
        """Memory held, with the order by time that may be asked for."""
        return 2 * self.positions.nbytes + 64

    @cached_property
    def by_time(self) -> np.ndarray:
        """The positions in order of start."""
        # A trace is sorted by start, so the order of rows is the order of time.
        return self.positions[np.argsort(self.index.column("row")[self.positions], kind="stable")]


def parse(query: str) -> tuple[Term, ...]:
    """The words of a query; quotes keep spaces together. Cut at 500 characters and 12 words."""
    query = query[:MAX_QUERY]
    try:
        words = shlex.split(query)
    except ValueError:
        words = query.split()
    terms = []
    for word in words[:MAX_WORDS]:
        name, colon, rest = word.partition(":")
        if colon and name.lower() in FIELDS and rest:
            terms.append(Term(name.lower(), rest))
        elif word:
            terms.append(Term("", word))
    return tuple(terms)


def search(index: Index, trace: Path, terms: tuple[Term, ...]) -> Match:
    """The events that match all terms. Reads only the columns that the terms look at."""
    mask = np.full(index.events, bool(terms))
    names_only = [t for t in terms if t.field == "op"]
    others = [t for t in terms if t.field != "op"]
    for term in names_only:
        table = np.array([term.text == name for name in index.names], bool)
        mask &= table[np.minimum(index.column("name"), len(table) - 1)]
    if others and mask.any():
        rows = _matching_rows(trace, others)
        row = index.column("row")
        mask &= rows[np.minimum(row, max(len(rows) - 1, 0))] if len(rows) else False
    return Match(index, np.flatnonzero(mask).astype(np.uint32))


def _matching_rows(trace: Path, terms: list[Term]) -> np.ndarray:
    import pyarrow.parquet as pq

    parts = []
    with pq.ParquetFile(trace) as file:
        wanted = [c for c in _columns(terms) if c in file.schema_arrow.names]
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(1 << 18, row_groups=[group], columns=wanted):
                matched = np.ones(batch.num_rows, bool)
                for term in terms:
                    matched &= _matches(batch, term)
                parts.append(matched)
    return np.concatenate(parts) if parts else np.zeros(0, bool)


def _columns(terms: list[Term]) -> list[str]:
    needed = {"line": ("file", "line"), "module": ("module",), "shape": ("shapes",), "phase": ("phase",),
              "kind": ("kind",), "step": ("step",), "": ("name", "module", "file", "line")}  # fmt: skip
    return sorted({column for term in terms for column in needed[term.field]})


def _matches(batch: Any, term: Term) -> np.ndarray:
    text = term.text.casefold()
    if term.field == "line":
        return _line_matches(batch, term.text)
    if term.field == "step":
        if "step" not in batch.schema.names or not re.fullmatch(r"-?\d{1,9}", text):
            return np.zeros(batch.num_rows, bool)
        return batch.column("step").fill_null(-1).to_numpy(zero_copy_only=False) == int(text)
    if term.field in ("phase", "kind"):
        return _text_matches(batch, term.field, lambda value: value.casefold() == text)
    if term.field == "module":
        return _text_matches(batch, "module", lambda v: v.casefold() == text or v.casefold().startswith(text + "."))
    if term.field == "shape":
        bare = text.replace(" ", "")
        return _text_matches(batch, "shapes", lambda v: bare in v.replace(" ", "").casefold())

    def holds(value: str) -> bool:
        return text in value.casefold()

    found = _text_matches(batch, "name", holds) | _text_matches(batch, "module", holds)
    return found | (_line_matches(batch, term.text) if _LINE.match(term.text) else _text_matches(batch, "file", holds))


def _line_matches(batch: Any, text: str) -> np.ndarray:
    given = _LINE.match(text)
    wanted, number = (given[1], int(given[2])) if given else (text, None)

    def same(file: str) -> bool:
        return file == wanted or file.endswith("/" + wanted)

    found = _text_matches(batch, "file", same)
    if number is not None and "line" in batch.schema.names:
        found &= batch.column("line").fill_null(-1).to_numpy(zero_copy_only=False) == number
    return found


def _text_matches(batch: Any, column: str, test: Callable[[str], bool]) -> np.ndarray:
    from neuron_explorer.ui.timeline.build import codes_of

    if column not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    codes, texts = codes_of(batch.column(column))
    return np.array([bool(text) and test(text) for text in texts], bool)[codes]


def bitmap(match: Match, tracks: range, shift: int, number: int) -> bytes:
    """For each row of a block, 1,024 bits: the tile's bins that a matching event touches.

    Bit 0 of byte 0 is the first bin.
    """
    t0, t1 = tile_span(shift, number)
    index = match.index
    bits = np.zeros((len(tracks), BINS + 1), np.int32)
    for at, track in enumerate(tracks):
        lo, hi = index.window(track, t0, t1)
        first, last = (int(np.searchsorted(match.positions, p)) for p in (lo, hi))
        chosen = match.positions[first:last]
        if len(chosen) == 0:
            continue
        start, end = index.column("start")[chosen], index.column("end")[chosen]
        left = np.clip((start - t0) >> shift, 0, BINS - 1)
        right = np.clip((np.maximum(end, start + 1) - 1 - t0) >> shift, 0, BINS - 1)
        bits[at] += np.bincount(left, minlength=BINS + 1).astype(np.int32)
        bits[at] -= np.bincount(right + 1, minlength=BINS + 1).astype(np.int32)
    return np.packbits(np.cumsum(bits[:, :BINS], axis=1) > 0, axis=1, bitorder="little").tobytes()
