"""Registers the emulated device as TorchNeuron registers the real one.

The order and the calls are torch's documented ones for a backend outside its tree:
rename PrivateUse1, register the device module, generate ``.neuron()`` methods.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import ModuleType

import torch

from neuron_explorer.neuron.emulator import Settings, device_module, distributed, package, recomputing, shutdown


def register(native: ModuleType, settings: Settings) -> None:
    """Once per process; the caller has made sure that nothing real is replaced."""
    torch.utils.rename_privateuse1_backend("neuron")
    native.enable(settings.native_operators, settings.devices, settings.memory_bytes, _first_device(settings))
    module = device_module.build(native)
    torch._register_device_module("neuron", module)
    sys.modules["torch.neuron"] = module
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    distributed.register()
    package.install(native, settings)
    recomputing.teach_torch()
    atexit.register(shutdown.wait_for_backward_threads)


def _first_device(settings: Settings) -> int:
    """The current device at the start: under ``torchrun`` each rank has its own, as on the device."""
    rank = os.environ.get("LOCAL_RANK", "")
    return int(rank) % settings.devices if rank.isdecimal() else 0
