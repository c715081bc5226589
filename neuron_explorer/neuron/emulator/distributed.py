"""The process group backend ``neuron`` of the emulated device: gloo, on host memory.

The device's collectives show their tensors to the group's CPU backend as CPU tensors over the
same bytes (``_native/src/emulator/collectives.cpp``), so all that is needed here is a backend of
that name whose CPU side is gloo. Data-parallel, sharded and tensor-parallel programs run under
``torchrun`` as on the device, one process per rank.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

NAME = "neuron"


def register() -> bool:
    """Make ``init_process_group("neuron")`` work. False where this torch has no distributed or no gloo."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return False
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _gloo, devices=["neuron", "cpu"])
    return True


def _gloo(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    from torch.distributed import ProcessGroupGloo

    return ProcessGroupGloo(store, rank, size, timeout=timeout)
