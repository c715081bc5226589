"""Calls in which the host waits for the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.recorders.backend import SYNC, Backend

__all__ = ["LIMITS", "Synchronisations"]

LIMITS = "methods of torch.Stream and torch.Event (the generic classes) cannot be observed"


class Synchronisations:
    """Records `torch.cuda.synchronize`, `torch.accelerator.synchronize`, and `synchronize` of
    CUDA and XPU streams and events.

    Nothing is touched on a machine whose accelerator is not in use. Waits inside operators
    (`item()`, copies to the CPU) are operators, and found in the conversion.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._active = False

    def start(self, *, force: bool = False) -> None:
        """Replace the functions; does nothing without an initialised accelerator (unless ``force``)."""
        if self._replaced or not (force or torch_private.initialised_accelerator()):
            return
        self._active = True
        for owner, name, public in torch_private.sync_places():
            original = vars(owner).get(name, getattr(owner, name))
            observed = self._observed(original, public)
            setattr(owner, name, observed)
            self._replaced.append((owner, name, original, observed))

    @property
    def started(self) -> bool:
        """Whether the functions are replaced now."""
        return bool(self._replaced)

    def stop(self) -> None:
        """Put the originals back, except where somebody replaced ours since."""
        self._active = False
        for owner, name, original, observed in reversed(self._replaced):
            if vars(owner).get(name) is observed:
                setattr(owner, name, original)
        self._replaced.clear()

    def _observed(self, original: Callable[..., Any], public: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def synchronise(*args: Any, **kwargs: Any) -> Any:
            if not self._active:
                return original(*args, **kwargs)
            token = self._backend.begin(SYNC, public)
            try:
                return original(*args, **kwargs)
            finally:
                self._backend.end(token)

        torch_private.hide_from_dynamo(synchronise)
        return synchronise
