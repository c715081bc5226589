"""Runs of Python's garbage collector."""

from __future__ import annotations

import gc
from typing import Any

from neuron_explorer.trace.recorders.backend import GC, Backend
from neuron_explorer.trace.recorders.torch_private import hide_from_dynamo

__all__ = ["GarbageCollections"]


class GarbageCollections:
    """Adds one event per collection: its generation and how many objects it found unreachable."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._token = 0
        self._open = False

    def start(self) -> None:
        """Listen to the collector."""
        hide_from_dynamo(self._on_collection)
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Stop listening; leaves the callbacks of others as they are."""
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        # Both calls come from the same thread, and collections do not overlap.
        if phase == "start":
            self._token = self._backend.begin(GC, f"gc generation {info.get('generation', 0)}")
            self._open = True
        elif self._open:
            self._open = False
            self._backend.end(self._token, info.get("collected", 0), info.get("generation", 0))
