"""Which recorder of operators to use here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_explorer.trace.notices import warn
from neuron_explorer.trace.recorders import torch_private
from neuron_explorer.trace.recorders.backend import Backend

__all__ = ["Choice", "choose"]

_told: set[str] = set()


@dataclass(frozen=True)
class Choice:
    """A recorder that is ready to start; ``reason`` says why it is not the native one."""

    name: str
    reason: str
    backend: Any

    def start(
        self, directory: Path, *, stacks: bool, shapes: bool, tensors: bool, use_map: bool, memory: bool = False
    ) -> Backend:
        """Start it on the spool ``directory``."""
        self.backend.start(directory, stacks=stacks, shapes=shapes, tensors=tensors, memory=memory, use_map=use_map)
        return self.backend


def choose(wanted: str) -> Choice:
    """The recorder for "auto", "native" or "twin".

    Raises:
        NativeUnavailable: "native" was asked for and cannot be had.
    """
    from neuron_explorer.trace.recorders.twin import TwinBackend

    if wanted == "twin":
        _tell_what_it_disturbs()
        return Choice("twin", "asked for", TwinBackend())
    from neuron_explorer import _native
    from neuron_explorer.trace.recorders.native import NativeBackend

    try:
        return Choice("native", "", NativeBackend(_native.load()))
    except _native.NativeUnavailable as error:
        if wanted == "native":
            raise
        if error.reason not in _told:
            _told.add(error.reason)
            warn(
                f"the fast recorder cannot be used: {error.reason}. {_sentence(error.advice)} "
                "Recording in Python instead: slower, this thread only, composite operators as their parts."
            )
        _tell_what_it_disturbs()
        return Choice("twin", error.reason, TwinBackend())


def _tell_what_it_disturbs() -> None:
    if torch_private.compiler_ignores_mode() or "compiler" in _told:
        return
    _told.add("compiler")
    warn(
        "with this version of torch the recorder in Python makes torch.compile compile functions again: compilations "
        "in this trace are not those of the program alone."
    )


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!")) else ".")
