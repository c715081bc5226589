"""Which kinds of events count as what."""

from __future__ import annotations

from typing import Final

WORK: Final = ("op", "autograd", "launch", "copy", "sync", "collective", "fallback")
"""Kinds whose self time on a host lane is time spent in an operator."""
LINE: Final = (*WORK, "data_wait")
"""Kinds whose self time is a line's own: operators, and waiting for data."""
TOTAL: Final = (*LINE, "range")
"""Kinds whose duration counts in a line's total."""
COMPILES: Final = ("compile", "recompile")
