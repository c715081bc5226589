"""A ``neuron`` device without Trainium: it runs the program on the CPU.

It is a functional emulator. It behaves like the device where a profiler looks (which
operators have a native kernel and which fall back, one compiled artifact per operator and
shapes, where the host waits), under TorchNeuron's public names. It never invents times:
every duration is what this machine's CPU took.

    import neuron_explorer.neuron.emulator as emulator
    emulator.enable()
    torch.ones(3, device="neuron")
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_explorer.errors import NeuronExplorerError

__all__ = ["EmulatorError", "Settings", "enable", "enabled", "native_operators"]

NATIVE_OPERATORS = Path(__file__).parent / "native_ops.txt"
MAX_DEVICES = 64


class EmulatorError(NeuronExplorerError):
    """The emulator cannot be switched on here."""

    exit_code = 5


@dataclass(frozen=True)
class Settings:
    """What the emulated device looks like.

    Attributes:
        devices: number of devices, 1 to 64.
        memory_bytes: memory of each device, in bytes. The default is the share of one physical
            core of a Trainium2 chip (96 GiB over 8 cores).
        native_operators: ATen overloads with a device kernel (``add.Tensor``, without ``aten::``).
        dynamic: what a symbolic dimension of a compiled graph does: ``"error"`` as on the device,
            or ``"specialise"``, which compiles the graph for the sizes at hand.
        cache_folder: where compiled artifacts are kept between runs, or None for memory only.
    """

    devices: int = 2
    memory_bytes: int = 12 << 30
    native_operators: tuple[str, ...] = ()
    dynamic: str = "error"
    cache_folder: Path | None = None


_settings: Settings | None = None


def enabled() -> Settings | None:
    """The settings in force, or None when the emulator is off."""
    return _settings


def native_operators(path: Path = NATIVE_OPERATORS) -> tuple[str, ...]:
    """The overloads of a list file: one a line, ``#`` begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EmulatorError(f"{path}: the list of native operators cannot be read ({error})") from None
    names = (line.split("#", 1)[0].strip().removeprefix("aten::") for line in lines)
    return tuple(name for name in names if name)


def enable(
    *,
    devices: int | None = None,
    memory_bytes: int | None = None,
    native: Iterable[str] | Path | None = None,
    dynamic: str | None = None,
    cache_folder: Path | str | None = None,
) -> Settings:
    """Registers the emulated device ``neuron`` in this process, for its whole life.

    Every argument falls back to an environment variable (``NEURON_EXPLORER_EMULATOR_DEVICES``,
    ``..._MEMORY`` in bytes, ``..._NATIVE_OPS`` a file, ``..._DYNAMIC``,
    ``..._CACHE`` a folder), then to the default of :class:`Settings`. A second call returns the
    settings of the first.

    Raises:
        EmulatorError: a real ``torch_neuronx`` is installed, another backend holds torch's
            PrivateUse1 slot, or there is no compiler to build the device with.
    """
    global _settings
    if _settings is not None:
        return _settings
    settings = _choose(devices, memory_bytes, native, dynamic, cache_folder)
    refuse_to_replace()
    _refuse_a_taken_slot()
    from neuron_explorer._native import NativeUnavailable, load_emulator

    try:
        native_module = load_emulator()
    except NativeUnavailable as error:
        raise EmulatorError(f"the emulated device cannot be built: {error.reason}; {error.advice}") from None
    from neuron_explorer.neuron.emulator import registration

    registration.register(native_module, settings)
    _settings = settings
    return settings


def _refuse_a_taken_slot() -> None:
    import torch

    name = torch._C._get_privateuse1_backend_name()
    # Torch keeps the name for ever; the slot is free only while nobody renamed it or filled it.
    if name != "privateuseone" or hasattr(torch, name) or _has_kernels(torch):
        raise EmulatorError(
            f"torch's PrivateUse1 slot is taken by the backend {name!r}; run without it to use the emulator"
        )


def _has_kernels(torch: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key("aten::empty.memory_format", "PrivateUse1"))


def refuse_to_replace() -> None:
    """Raises :class:`EmulatorError` where a real ``torch_neuronx`` is installed. Does not import torch."""
    module = sys.modules.get("torch_neuronx")
    spec = getattr(module, "__spec__", None) if module is not None else _find("torch_neuronx")
    if module is not None or spec is not None:
        where = getattr(spec, "origin", None) or getattr(module, "__file__", None) or "this environment"
        raise EmulatorError(
            f"a real torch_neuronx is installed ({where}); the emulator does not replace it: run without --emulate"
        )


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _choose(
    devices: int | None,
    memory_bytes: int | None,
    native: Iterable[str] | Path | None,
    dynamic: str | None,
    cache_folder: Path | str | None,
) -> Settings:
    environment = os.environ.get
    count = devices if devices is not None else _whole("DEVICES", max(2, min(_local_ranks(), MAX_DEVICES)))
    memory = memory_bytes if memory_bytes is not None else _whole("MEMORY", 12 << 30)
    if not 1 <= count <= MAX_DEVICES:
        raise EmulatorError(f"the emulator has 1 to {MAX_DEVICES} devices, not {count}")
    if memory < 1:
        raise EmulatorError("an emulated device needs at least one byte of memory")
    if native is None:
        native = Path(environment("NEURON_EXPLORER_EMULATOR_NATIVE_OPS") or NATIVE_OPERATORS)
    names = native_operators(native) if isinstance(native, Path) else tuple(native)
    symbolic = dynamic or environment("NEURON_EXPLORER_EMULATOR_DYNAMIC") or "error"
    if symbolic not in ("error", "specialise"):
        raise EmulatorError(f"dynamic is 'error' or 'specialise', not {symbolic!r}")
    folder = cache_folder or environment("NEURON_EXPLORER_EMULATOR_CACHE") or None
    return Settings(count, memory, names, symbolic, Path(folder) if folder else None)


def _local_ranks() -> int:
    """Number of ranks that torchrun started on this machine: each takes a device."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(text) if text.isdecimal() else 1


def _whole(name: str, default: int) -> int:
    text = os.environ.get(f"NEURON_EXPLORER_EMULATOR_{name}", "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise EmulatorError(f"NEURON_EXPLORER_EMULATOR_{name} must be a whole number, not {text!r}") from None
