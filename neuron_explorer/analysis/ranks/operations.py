"""Names of collectives: one word for every variant, and what each word means for who waits for whom."""

from __future__ import annotations

import re
from typing import Final

from neuron_explorer.analysis.ranks.facts import OPERATION_CODES

_WORDS: Final = (
    ("reduce_scatter", re.compile(r"reduce_?scatter")),
    ("all_reduce", re.compile(r"all_?reduce")),
    ("all_gather", re.compile(r"all_?gather")),
    ("all_to_all", re.compile(r"all_?to_?all|all2all")),
    ("barrier", re.compile(r"barrier")),
    ("broadcast", re.compile(r"broadcast")),
    ("scatter", re.compile(r"scatter")),
    ("gather", re.compile(r"gather")),
    ("reduce", re.compile(r"reduce")),
    ("send", re.compile(r"(?:^|[^a-z])i?send")),
    ("recv", re.compile(r"(?:^|[^a-z])i?recv")),
)

SYNCHRONISING: Final = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
"""No rank can complete one before every rank has begun it: each needs data, or word, of all. ``all_to_all`` is not
among them, since it may move nothing between two ranks."""

SAME_BYTES: Final = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "barrier")
"""Every rank of the group gives the same number of bytes."""


def operation_code(said: object, name: str = "") -> int:
    """The position in ``OPERATIONS`` of what a row says it is, else of its name; ``other`` where neither tells."""
    for text in (said, name):
        if isinstance(text, str) and text:
            known = OPERATION_CODES.get(text)
            if known is not None:
                return known
            lower = text[:200].lower()
            for word, pattern in _WORDS:
                if pattern.search(lower):
                    return OPERATION_CODES[word]
    return OPERATION_CODES["other"]
