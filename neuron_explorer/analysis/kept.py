"""What several analyses of one trace ask for, read once and kept while the trace is in use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

T = TypeVar("T")

MOST: Final = 4
"""Answers of a trace, which may be as large as its durations; the oldest goes."""

_answers: WeakKeyDictionary[Any, dict[Hashable, Any]] = WeakKeyDictionary()
_lock = threading.RLock()  # an answer may need another; of two threads that ask for the same, one waits


def kept(trace: Trace, key: Hashable, make: Callable[[], T]) -> T:
    """The answer under ``key``, made at the first call. It is shared: nobody may change it."""
    with _lock:
        known = _answers.setdefault(trace, {})
        if key not in known:
            answer = make()
            known[key] = answer
            while len(known) > MOST:
                known.pop(next(iter(known)))
            return answer
        found: T = known[key]
        return found


def known(trace: Trace, key: Hashable) -> Any:
    """The answer under ``key`` where it is there already, else None."""
    with _lock:
        return _answers.get(trace, {}).get(key)
