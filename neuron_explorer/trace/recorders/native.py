"""The recorder in C++: started and stopped through the module that `_native` builds."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from neuron_explorer.trace.recorders.held_memory import HeldMemory, optimizer_call
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
        self.compiling = module.compiling  # of the calling thread: what runs is the compiler's, counted only
        self.collective = module.collective  # the last one that began on the calling thread
        self.pause = module.pause
        self.resume = module.resume
        self.held: HeldMemory | None = None  # what memory holds, where that is recorded
        self._process_directory: Path | None = None
        self._pid = -1

    def start(
        self,
        directory: Path,
        *,
        stacks: bool,
        shapes: bool,
        tensors: bool,
        use_map: bool,
        memory: bool = False,
        role: str = "main",
    ) -> None:
        """Create the process's spool below ``directory`` and observe from here on."""
        hide_from_dynamo(namer)
        options = (str(directory), stacks, shapes, tensors, use_map, namer, CHUNK_BYTES, role)
        if memory:
            self.held = HeldMemory(self._module)
            hide_from_dynamo(HeldMemory.optimizer)
            self._module.start(*options, True, self.held.optimizer, optimizer_call())
        else:
            self._module.start(*options)
        # A process id that comes back gets a suffix; the newest directory is this one's.
        self._pid = pid = os.getpid()
        found = [d for d in directory.glob(f"p{pid}*") if d.name.partition("-")[0] == f"p{pid}"]
        self._process_directory = max(found, key=lambda d: (len(d.name), d.name), default=None)

    def stop(self) -> dict[str, Any]:
        """End the recording and leave its counters in ``control.json``."""
        counters: dict[str, Any] = self._module.stop()
        if self._process_directory is not None and os.getpid() == self._pid:
            target = self._process_directory / "control.json"
            document = {**counters, "reason_stopped": counters.get("failed")}
            with contextlib.suppress(OSError):  # a full disk: the counters are in the trace anyway
                temporary = target.with_suffix(".tmp")
                temporary.write_text(json.dumps(document), encoding="utf-8")
                temporary.replace(target)
        return counters
