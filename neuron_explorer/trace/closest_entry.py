"""Which cache entry a new compilation nearly fitted, when the guards of both are known.

Dynamo tells only the first guard that failed in each entry, and tries the guards that failed
last time first, so that one guard does not say how much else differed. The guards of an entry
that the new compilation does not have too say it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from .compiles import Compiles, Reason, Recompile
from .recompile_reasons import closest

__all__ = ["bare_guards", "closest_entry", "nearest_first"]

MAX_ENTRIES: Final = 300
"""Entries of one function that are compared; torch's own limit is 8, and 256 for all together."""

_COMMENT: Final = re.compile(r"\s{2,}#.*", re.DOTALL)
_BLANK: Final = re.compile(r"\s+")


def bare_guards(guards: Iterable[str]) -> frozenset[str]:
    """The guards without the comments that say where they come from."""
    return frozenset(_BLANK.sub(" ", _COMMENT.sub("", guard)).strip() for guard in guards)


def closest_entry(
    reasons: Sequence[Reason], found: Collection[str], entries: Mapping[str, Collection[str]]
) -> int:
    """Index of the reason of the entry with the fewest guards that are not among those ``found``.

    ``found`` and the values of ``entries`` (by compile id) are bare guards. Of entries that are
    equally near, and where guards are not known, the reasons decide. -1 without reasons.
    """
    unmet: dict[int, int] = {}
    for index, reason in enumerate(reasons):
        guards = entries.get(reason.entry) if found else None
        if guards:
            unmet[index] = sum(1 for guard in guards if guard not in found)
    if not unmet:
        return closest(reasons)
    fewest = min(unmet.values())
    nearest = [index for index, number in unmet.items() if number == fewest]
    return nearest[closest([reasons[index] for index in nearest])]


def nearest_first(compiles: Compiles) -> Compiles:
    """The same, with the reason of the nearest entry first in every recompilation whose guards are known."""
    told = {recompile.key: recompile for recompile in compiles.recompiles}
    entries: dict[str, dict[str, frozenset[str]]] = {}  # function's id -> compile id of an entry -> its guards
    found: dict[int, Recompile] = {}
    for compilation in sorted(compiles.compilations, key=lambda c: (c.start, c.key)):
        if compilation.trigger == "backward" or not compilation.compile_id:
            continue
        function, _, number = compilation.compile_id.rpartition("/")
        if number == "0" and compilation.attempt == 0:  # ids begin again after a reset
            entries[function] = {}
        mine = entries.setdefault(function, {})
        guards = bare_guards(compilation.guards)
        recompile = told.get(compilation.key)
        if recompile is not None:
            found[compilation.key] = _nearest_first(recompile, guards, mine)
        if compilation.outcome == "ok" and guards and len(mine) < MAX_ENTRIES:
            mine[compilation.compile_id] = guards
    if not found:
        return compiles
    return replace(compiles, recompiles=tuple(found.get(r.key, r) for r in compiles.recompiles))


def _nearest_first(recompile: Recompile, guards: frozenset[str], entries: Mapping[str, frozenset[str]]) -> Recompile:
    reasons = list(recompile.reasons)
    first = closest_entry(reasons, guards, entries)
    if first < 0:
        return recompile
    reasons.insert(0, reasons.pop(first))
    return Recompile(recompile.key, tuple(reasons), reasons[0].entry)
