"""Calls in which the host waits for a collective: ``Work.wait`` and the ``wait`` of its future.

A handle is known by the id of its Python object, which a weak reference takes back when the
program lets go of it: nothing is held alive. What C++ waits for by itself is not seen.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from neuron_explorer.trace.collective_facts import WAIT_PREFIX, operation_of
from neuron_explorer.trace.recorders import distributed_private, torch_private
from neuron_explorer.trace.recorders.backend import SYNC, Backend

__all__ = ["LIMITS", "CollectiveWaits"]

LIMITS: Final = "waits inside C++ (DDP's reducer) are not seen"


class CollectiveWaits:
    """Replaces methods of torch's classes, once torch.distributed is in use."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._collective = backend.collective
        self._handles: dict[int, tuple[Any, int, str]] = {}
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._active = False

    @property
    def started(self) -> bool:
        """Whether waits are seen."""
        return bool(self._replaced)

    def start(self) -> None:
        """Replace the methods; does nothing where torch.distributed is not in use."""
        work, group = distributed_private.work_class(), distributed_private.process_group_class()
        if self._replaced or work is None or group is None:
            return
        self._active = True
        for name in distributed_private.submitting_methods():
            self._replace(group, name, self._submitting)
        self._replace(work, "get_future", self._submitting)
        self._replace(work, "wait", self._waiting)
        future = distributed_private.future_class()
        if future is not None:
            self._replace(future, "wait", self._waiting)

    def stop(self) -> None:
        """Put the originals back, except where somebody replaced ours since."""
        self._active = False
        for owner, name, original, observed in reversed(self._replaced):
            if vars(owner).get(name) is observed:
                setattr(owner, name, original)
        self._replaced.clear()
        self._handles.clear()

    def _replace(self, owner: Any, name: str, observing: Callable[[Any, str], Any]) -> None:
        original = vars(owner).get(name)
        if original is None:
            return
        observed = observing(original, name)
        # C++ asks the running frame by name whether Python's part of a virtual method is under way.
        observed.__code__ = observed.__code__.replace(co_name=name)
        torch_private.hide_from_dynamo(observed)
        setattr(owner, name, observed)
        self._replaced.append((owner, name, original, observed))

    def _submitting(self, original: Any, name: str) -> Any:
        operation = operation_of("c10d::" + name) or "collective"

        @functools.wraps(original)
        def submit(self_: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self_, *args, **kwargs)
            if self._active and result is not None:
                if name == "get_future":
                    known = self._handles.get(id(self_))
                    if known is not None:
                        self._remember(result, known[1], known[2])
                else:
                    self._remember(result, self._collective(), operation)
            return result

        return submit

    def _waiting(self, original: Any, _: str) -> Any:
        @functools.wraps(original)
        def wait(self_: Any, *args: Any, **kwargs: Any) -> Any:
            known = self._handles.get(id(self_)) if self._active else None
            if known is None:
                return original(self_, *args, **kwargs)
            token = self._backend.begin(SYNC, WAIT_PREFIX + known[2])
            try:
                return original(self_, *args, **kwargs)
            finally:
                self._backend.end(token, known[1])

        return wait

    def _remember(self, handle: Any, collective: int, operation: str) -> None:
        number = id(handle)

        def forget(_: Any) -> None:
            self._handles.pop(number, None)

        try:
            gone = weakref.ref(handle, forget)
        except TypeError:
            return
        self._handles[number] = (gone, collective, operation)

