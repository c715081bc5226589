"""What metadata events say of processes and threads."""

from __future__ import annotations

from typing import Any

from .collect import Collected

__all__ = ["Names"]


class Names:
    """By the numbers of the texts that name a process and a thread."""

    def __init__(self, found: Collected) -> None:
        self._said: dict[tuple[str, int, int], Any] = {}
        for (name, pid, tid), rest in found.metadata.items():
            what = found.texts.content(name)
            arguments = found.texts.value_of_members(rest) if rest else None
            if isinstance(arguments, dict):
                key = "labels" if what == "process_labels" else "sort_index" if what.endswith("sort_index") else "name"
                of_process = what.startswith("process_")
                self._said[what, pid, 0 if of_process else tid] = arguments.get(key)

    def text(self, what: str, pid: int, tid: int = 0) -> str:
        """A name, "" where none is given."""
        value = self._said.get((what, pid, tid))
        return value[:300] if isinstance(value, str) else ""

    def index(self, what: str, pid: int, tid: int = 0) -> float:
        """A place in the order, 0 where none is given."""
        value = self._said.get((what, pid, tid))
        return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0

    def __bool__(self) -> bool:
        return bool(self._said)
