"""Which cache entry a new compilation nearly fitted, when the guards of both are known.

Dynamo tells only the first guard that failed in each entry, and tries the guards that failed
last time first, so that one guard does not say how much else differed. The guards of an entry
that the new compilation does not have too say it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from .compiles import Reason
from .recompile_reasons import closest

__all__ = ["bare_guards", "closest_entry"]

_COMMENT = re.compile(r"\s{2,}#.*", re.DOTALL)
_BLANK = re.compile(r"\s+")


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
