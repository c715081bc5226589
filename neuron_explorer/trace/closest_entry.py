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
_TENSOR: Final = re.compile(
    r"check_tensor\((?P<source>.+?), [\w.]+, (?P<keys>DispatchKeySet\([^)]*\)), (?P<dtype>[\w.]+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]\)"
)


def bare_guards(guards: Iterable[str]) -> frozenset[str]:
    """The guards without the comments that say where they come from."""
    return frozenset(_BLANK.sub(" ", _COMMENT.sub("", guard)).strip() for guard in guards)


def closest_entry(
    reasons: Sequence[Reason], found: Collection[str], entries: Mapping[str, Collection[str]]
) -> int:
    """Index of the reason of the entry that differs least from what was ``found``.

    ``found`` and the values of ``entries`` (by compile id) are bare guards. A guard that is not among
    those found counts once; of a tensor's, every size and property that differs. Of entries that are
    equally near, and where guards are not known, the reasons decide. -1 without reasons.
    """
    tensors = {match["source"]: match for guard in found if (match := _TENSOR.fullmatch(guard))}
    unmet: dict[int, int] = {}
    for index, reason in enumerate(reasons):
        guards = entries.get(reason.entry) if found else None
        if guards:
            unmet[index] = sum(_differences(guard, tensors) for guard in guards if guard not in found)
    if not unmet:
        return closest(reasons)
    fewest = min(unmet.values())
    nearest = [index for index, number in unmet.items() if number == fewest]
    return nearest[closest([reasons[index] for index in nearest])]


def _differences(guard: str, tensors: Mapping[str, re.Match[str]]) -> int:
    """In how much a guard that was not found again differs from what was."""
    match = _TENSOR.fullmatch(guard)
    found = tensors.get(match["source"]) if match else None
    if match is None or found is None:
        return 1
    number = sum(match[part] != found[part] for part in ("dtype", "device", "grad")) + _sizes(match, found, "size")
    # Another layout or backend counts where nothing else explains it.
    return number or int(match["keys"] != found["keys"] or _sizes(match, found, "stride") > 0)


def _sizes(match: re.Match[str], found: re.Match[str], part: str) -> int:
    """How many numbers differ; ``None`` in the entry's is any number, and another number of them counts once."""
    wanted, given = (m[part].split(", ") if m[part] else [] for m in (match, found))
    if len(wanted) != len(given):
        return 1
    return sum(want not in ("None", size) for want, size in zip(wanted, given, strict=True))


def nearest_first(compiles: Compiles) -> Compiles:
    """The same, with the reason of the nearest entry first in every recompilation whose guards are known."""
    told = {recompile.key: recompile for recompile in compiles.recompiles}
    entries: dict[str, dict[str, frozenset[str]]] = {}  # function's id -> compile id of an entry -> its guards
    found: dict[int, Recompile] = {}
    restarted: dict[str, Recompile] = {}  # compile id -> told of its first attempt, which has no guards
    for compilation in sorted(compiles.compilations, key=lambda c: (c.start, c.key)):
        if compilation.trigger == "backward" or not compilation.compile_id:
            continue
        function, _, number = compilation.compile_id.rpartition("/")
        if number == "0" and compilation.attempt == 0:  # ids begin again after a reset
            entries[function] = {}
        mine = entries.setdefault(function, {})
        guards = bare_guards(compilation.guards)
        earlier = restarted.pop(compilation.compile_id, None) if compilation.attempt > 0 else None
        recompile = told.get(compilation.key) or earlier
        if recompile is not None:
            if compilation.outcome == "restarted":
                restarted[compilation.compile_id] = recompile
            if guards or not recompile.previous:  # else the recorder's choice is all there is
                found[recompile.key] = _nearest_first(recompile, guards, mine)
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
