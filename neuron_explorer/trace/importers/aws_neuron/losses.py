"""What of a profile did not come into the trace, counted by kind with the place of the first."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..report import Skipped

__all__ = ["Losses"]


@dataclass
class Losses:
    """Counts by what was lost."""

    _found: dict[str, Skipped] = field(default_factory=dict)

    def add(self, what: str, number: int, why: str, where: str = "", *, harmless: bool = False) -> None:
        """Count ``number`` more; the first that is counted gives the reason and the place."""
        if number <= 0:
            return
        before = self._found.get(what)
        if before is None:
            self._found[what] = Skipped(what, int(number), why[:1000], where[:500], harmless)
        else:
            self._found[what] = Skipped(what, before.number + int(number), before.why, before.where, before.harmless)

    def skipped(self) -> tuple[Skipped, ...]:
        """All of them: what was lost first, then what was left out on purpose; most first."""
        return tuple(sorted(self._found.values(), key=lambda s: (s.harmless, -s.number, s.what)))

    def number(self) -> int:
        """How much was lost."""
        return sum(s.number for s in self._found.values() if not s.harmless)
