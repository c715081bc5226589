"""Warnings that can never break the program they are shown in."""

from __future__ import annotations

import os
import sys
import warnings

__all__ = ["RecordingWarning", "warn"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class RecordingWarning(RuntimeWarning):
    """Something the recorder could not do; the program goes on."""


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
