"""The recorder in C++: started and stopped through the module that `_native` builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuron_explorer.trace.recorders.modules import namer
from neuron_explorer.trace.recorders.torch_private import hide_from_dynamo

__all__ = ["NativeBackend"]

CHUNK_BYTES = 1 << 20


class NativeBackend:
    """All threads, all operators, at a few hundred nanoseconds each."""

    name = "native"

    def __init__(self, module: Any) -> None:
        self._module = module
        # The module's own functions: a Python method around each would cost more than the work.
        self.add = module.add
        self.begin = module.begin
        self.end = module.end
        self.now = module.now
        self.stats = module.stats
        self.pause = module.pause
        self.resume = module.resume
        self.stop = module.stop

    def start(
        self,
        directory: Path,
        *,
        stacks: bool,
        shapes: bool,
        tensors: bool,
        use_map: bool,
        role: str = "main",
    ) -> None:
        """Create the process's spool below ``directory`` and observe from here on."""
        hide_from_dynamo(namer)
        self._module.start(str(directory), stacks, shapes, tensors, use_map, namer, CHUNK_BYTES, role)
