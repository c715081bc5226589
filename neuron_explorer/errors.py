"""Errors that are meant for the user: one sentence on what is wrong, one on what to do.

The command line prints them without a traceback; the exit code is the class's
``exit_code``.
"""

from __future__ import annotations

__all__ = ["BadTraceError", "NeuronExplorerError", "OutputError", "ProfilerActiveError"]


class NeuronExplorerError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 4


class BadTraceError(NeuronExplorerError):
    """A file that is no trace, is damaged, or was written by a newer version."""


class OutputError(NeuronExplorerError):
    """The output path cannot be written, or holds a file that must not be lost."""


class ProfilerActiveError(NeuronExplorerError):
    """``profile()`` was entered while another recording of this process is active."""
