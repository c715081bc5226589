"""``torch_neuronx`` as the emulator offers it: TorchNeuron's public names, nothing more.

Scripts import it and profilers read it. What the emulator does not have raises
AttributeError, as an older release would.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from neuron_explorer.neuron.emulator import Settings
from neuron_explorer.neuron.emulator.artifacts import ArtifactCache
from neuron_explorer.neuron.emulator.dynamo import CompileMetrics, make_backend, select_automatically
from neuron_explorer.record.on_import import when_imported

VERSION = "2.13.3.0+emulated"


def install(native: ModuleType, settings: Settings) -> None:
    """Puts the modules into ``sys.modules`` and registers the ``neuron`` compile backend."""
    cache = ArtifactCache(native, settings.cache_folder)
    metrics = CompileMetrics()
    root = _module("torch_neuronx", package=True)
    low = _module("torch_neuronx._C")
    compiled = _module("torch_neuronx.neuron_dynamo_backend", package=True)
    backend = _module("torch_neuronx.neuron_dynamo_backend.backend")

    root.__version__ = VERSION
    root.is_emulated = True
    root._C = low
    root.neuron_dynamo_backend = compiled
    compiled.backend = backend

    def get_fallback_ops() -> list[str]:
        return sorted(op for op, *_ in native.fallbacks())

    def get_executed_ops() -> list[str]:
        return sorted(native.executed())

    root.get_fallback_ops = get_fallback_ops
    root.get_executed_ops = get_executed_ops
    root.clear_op_tracking = native.clear
    root.get_dynamo_metrics = metrics.all
    root.reset_dynamo_metrics = metrics.clear

    low._get_compilation_cache_stats = cache.stats
    low._get_compilation_cache_entries = cache.entries
    low._get_all_cache_keys = cache.keys

    backend.neuron_backend = make_backend(native, settings, cache, metrics)
    compiled.get_dynamo_metrics = metrics.all

    import torch

    torch.neuron.get_dynamo_metrics = metrics.all
    torch.neuron.reset_dynamo_metrics = metrics.clear
    select_automatically(backend.neuron_backend)
    # Importing Dynamo takes a second: it is told when the program imports it.
    when_imported("torch._dynamo.backends.registry", lambda: _register(backend.neuron_backend))


def _register(compile_backend: Callable[..., Any]) -> None:
    from torch._dynamo.backends import registry

    registry.register_backend(compiler_fn=compile_backend, name="neuron")


class _Loader:
    """Loads what is there already: the module that a program imports is this one."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        pass


def _module(name: str, *, package: bool = False) -> ModuleType:
    module = ModuleType(name, "Emulated: see neuron_explorer.neuron.emulator.")
    module.__spec__ = importlib.machinery.ModuleSpec(name, _Loader(module), is_package=package)
    if package:
        module.__path__ = []
    sys.modules[name] = module
    return module
