"""Folders that are served: which traces came into them since they were looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.run_files import trace_files
from neuron_explorer.ui.watch import Signature, signature

EVERY_S: Final = 2.0
"""How often they are looked at, at most."""
MOST_FILES: Final = 2_000
"""Files of a folder that are looked at."""


class Folders:
    """``paths``: folders; ``known``: files of theirs that were looked at, ``refused``: those of them
    that are no traces as they are. Safe from several threads."""

    def __init__(self, paths: Iterable[Path], known: Iterable[Path] = (), refused: Iterable[Path] = ()) -> None:
        self.paths = tuple(path.resolve() for path in paths)
        self._refused: dict[Path, Signature | None] = {path.resolve(): signature(path) for path in refused}
        self._known = {path.resolve() for path in known} - set(self._refused)
        self._lock = threading.Lock()
        self._next = 0.0

    def arrived(self) -> list[Path]:
        """Traces that are there now and were not before, by name; [] where another look is too soon.

        A file that is no trace, or is not whole yet, is tried again when it has changed.
        """
        if not self.paths or not self._lock.acquire(blocking=False):
            return []
        try:
            now = time.monotonic()
            if now < self._next:
                return []
            found = [path for folder in self.paths for path in _files(folder) if self._is_new(path)]
            self._known.update(found)
            self._next = time.monotonic() + EVERY_S
            return found
        finally:
            self._lock.release()

    def _is_new(self, path: Path) -> bool:
        from neuron_explorer.trace.store import load

        if path in self._known:
            return False
        file = signature(path)
        if path in self._refused and self._refused[path] == file:
            return False
        try:
            load(path).close()
        except (NeuronExplorerError, OSError):
            self._refused[path] = file
            return False
        return True


def _files(folder: Path) -> list[Path]:
    return [path.resolve() for path in trace_files(folder)[:MOST_FILES]]
