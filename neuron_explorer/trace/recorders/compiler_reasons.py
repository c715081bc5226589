"""Why a function is compiled again: what torch says, completed by what can be looked up."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from neuron_explorer.trace.compile_spool import MAX_ITEMS
from neuron_explorer.trace.compiles import Compilation, LimitReached, Place, Reason
from neuron_explorer.trace.notices import RecompileWarning, warn_at
from neuron_explorer.trace.recompile_reasons import parse_reason
from neuron_explorer.trace.recorders.compiler_nearest import nearest
from neuron_explorer.trace.recorders.compiler_values import with_found_value

__all__ = ["read", "warn_of_limit", "warn_of_recompile"]

_parsed = functools.lru_cache(maxsize=256)(parse_reason)  # each version's text comes again with every later one
_CHANGED: Final = {
    "size": "the size {}",
    "stride": "the stride {}",
    "dtype": "the dtype of {}",
    "device": "the device of {}",
    "requires_grad": "whether {} requires a gradient",
    "object_identity": "the object {}",
    "python_value": "the value of {}",
    "global_value": "the global {}",
}


def read(
    texts: Any, guards: Mapping[str, Sequence[str]], local: Mapping[str, Any], outside: Mapping[str, Any]
) -> tuple[Reason, ...]:
    """A reason per version (cache entry), the nearest version's first; of many, those of the newest 64.

    ``guards``: compile id of a version → its guards. ``local`` and ``outside`` are the scopes of
    the function that is compiled again.
    """
    if not isinstance(texts, (list, tuple)) or not texts:
        return (Reason("", "no_reason", ""),)
    reasons = []
    for text in texts[:MAX_ITEMS]:
        reasons.append(with_found_value(_parsed(str(text)), local, outside))
    first = nearest(reasons, guards, local, outside)
    return (reasons[first], *reasons[:first], *reasons[first + 1 :])


def warn_of_recompile(compilation: Compilation, reasons: Sequence[Reason]) -> None:
    """A :class:`RecompileWarning` at the user's line that called the function."""
    place = compilation.place
    limit = f" of at most {compilation.limit}" if compilation.limit > 0 else ""
    warn_at(
        f"torch.compile compiles {place.function} ({place.file}:{place.line}) again, version "
        f"{compilation.nth}{limit}: {_cause(reasons)}",
        RecompileWarning,
        _caller(compilation.callers, place),
    )


def warn_of_limit(limit: LimitReached) -> None:
    """The same, when the function will run eagerly from now on."""
    place = limit.place
    warn_at(
        f"torch.compile gives up on {place.function} ({place.file}:{place.line}) after {limit.limit} versions "
        f"({limit.kind}): it runs eagerly from here on. Last cause: {_cause(limit.reasons)}",
        RecompileWarning,
        _caller(limit.callers, place),
    )


def _caller(callers: Sequence[Place], place: Place) -> Place:
    return callers[0] if callers else place


def _cause(reasons: Sequence[Reason]) -> str:
    if not reasons:
        return "no reason given"
    reason = reasons[0]
    text = _CHANGED.get(reason.cause, "{}").format(reason.source or "something")
    if reason.expected:
        return f"{text} changed (expected {reason.expected}, found {reason.actual or 'not observed'})"
    if reason.guard:
        return f"{reason.guard[:300]}" + (f" (found {reason.actual})" if reason.actual else "")
    return "no reason given"
