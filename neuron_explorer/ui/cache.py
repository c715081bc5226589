"""Answers of analyses, kept for as long as their trace is open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

T = TypeVar("T")

_MOST_ANSWERS = 64
_answers: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()
_lock = threading.Lock()
_building = threading.RLock()  # an analysis may ask for the answer of another


def cached(trace: Trace, analysis: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """``analysis(trace, ...)``, computed once for the same arguments.

    One analysis runs at a time: they share the machine with the browser. The oldest
    answer goes when a trace has more than 64.
    """
    key = (analysis.__module__, analysis.__qualname__, args, tuple(sorted(kwargs.items())))
    with _lock:
        known = _answers.setdefault(trace, {})
        if key in known:
            return known[key]
    with _building:
        with _lock:
            if key in known:
                return known[key]
        answer = analysis(trace, *args, **kwargs)
        with _lock:
            known[key] = answer
            while len(known) > _MOST_ANSWERS:
                known.pop(next(iter(known)))
    return answer
