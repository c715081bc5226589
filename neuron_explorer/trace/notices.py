"""Warnings that can never break the program they are shown in."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuron_explorer.trace.compiles import Place

__all__ = ["RecompileWarning", "RecordingWarning", "warn", "warn_at"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class RecordingWarning(RuntimeWarning):
    """Something the recorder could not do; the program goes on."""


class RecompileWarning(RuntimeWarning):
    """``torch.compile`` compiled a function again, or gave up on it; shown with ``warn_on_recompile=True``."""


def warn_at(message: str, category: type[Warning], place: Place) -> None:
    """Show ``message`` as a ``category`` warning at a line of the program, every time.

    Filters of the program decide as for any warning, with one exception: where they turn it into
    an error it goes to stderr, since it arises inside the compiler, where an exception would
    change what is compiled.
    """
    try:
        # Without a registry nothing is written into the program's modules, and nothing is said only once.
        warnings.warn_explicit(message, category, place.file, max(place.line, 1), module=place.file)
    except Exception:
        print(f"neuron-explorer: {message}", file=sys.stderr)


def warn(message: str) -> None:
    """Show ``message`` as a :class:`RecordingWarning` at the line that called this package.

    On stderr where the program turns warnings into errors.
    """
    try:
        warnings.warn(message, RecordingWarning, stacklevel=_depth_of_caller())
    except RecordingWarning:
        print(f"neuron-explorer: {message}", file=sys.stderr)


def _depth_of_caller() -> int:
    # From the point of view of warn(): 1 is warn itself.
    depth = 0
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        depth += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    return depth + 1
