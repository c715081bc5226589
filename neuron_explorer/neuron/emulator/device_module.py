"""``torch.neuron``: the device module, under TorchNeuron's public names."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable
from types import ModuleType, TracebackType
from typing import Any

import torch

_NAME = "NeuronCore (emulated on the CPU)"


class Properties:
    """What ``get_device_properties`` tells."""

    def __init__(self, name: str, total_memory: int) -> None:
        self.name = name
        self.total_memory = total_memory
        self.emulated = True

    def __repr__(self) -> str:
        return f"NeuronDeviceProperties(name={self.name!r}, total_memory={self.total_memory}, emulated=True)"


def build(native: ModuleType) -> ModuleType:
    """The module that ``torch.neuron`` becomes."""
    module = ModuleType("torch.neuron", __doc__)
    for name, function in _functions(native).items():
        setattr(module, name, function)
    return module


def _index(device: Any, native: ModuleType) -> int:
    if device is None:
        return int(native.current_device())
    if isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type != "neuron":
            raise ValueError(f"Expected a neuron device, but got: {device}")
        index = device.index if device.index is not None else int(native.current_device())
    if not 0 <= index < native.device_count():
        raise RuntimeError(f"neuron: invalid device ordinal {index}: there are {native.device_count()} devices")
    return index


def _functions(native: ModuleType) -> dict[str, Any]:
    functions: dict[str, Any] = {}
    functions.update(_devices(native))
    functions.update(_streams(native))
    functions.update(_memory(native))
    functions.update(_random(native))
    return functions


def _devices(native: ModuleType) -> dict[str, Any]:
    def is_available() -> bool:
        return native.device_count() > 0

    def device_count() -> int:
        return int(native.device_count())

    def current_device() -> int:
        return int(native.current_device())

    def set_device(device: Any) -> None:
        native.set_device(_index(device, native))

    def get_device_name(device: Any = None) -> str:
        _index(device, native)
        return _NAME

    def get_device_properties(device: Any = None) -> Properties:
        from neuron_explorer.neuron import emulator

        _index(device, native)
        settings = emulator.enabled()
        return Properties(_NAME, settings.memory_bytes if settings else 0)

    def synchronize(device: Any = None) -> None:
        _index(device, native)

    def is_initialized() -> bool:
        return True  # there is no start-up that asking could set off

    def init() -> None:
        native.set_device(native.current_device())

    def is_bf16_supported(including_emulation: bool = True) -> bool:
        return True

    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    class device:
        """Makes a device the current one inside a ``with``."""

        def __init__(self, device: Any) -> None:
            self.index = _index(device, native)
            self.previous = -1

        def __enter__(self) -> None:
            self.previous = int(native.current_device())
            native.set_device(self.index)

        def __exit__(self, *_: Any) -> None:
            native.set_device(self.previous)

    return {
        "is_available": is_available,
        "device_count": device_count,
        "current_device": current_device,
        "set_device": set_device,
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "synchronize": synchronize,
        "is_initialized": is_initialized,
        "init": init,
        "_lazy_init": init,
        "is_bf16_supported": is_bf16_supported,
        "get_amp_supported_dtype": get_amp_supported_dtype,
        "device": device,
        "_is_in_bad_fork": native.in_bad_fork,
    }


def _streams(native: ModuleType) -> dict[str, Any]:
    class Stream(torch.Stream):
        """A stream. Work on the emulated device is done when the call returns."""

        def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
            if "stream_id" in kwargs:
                return super().__new__(cls, **kwargs)
            return super().__new__(cls, device=torch.device("neuron", _index(device, native)), priority=priority)

    class AnyEvent(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, torch.Event) and instance.device.type == "neuron"

    class Event(metaclass=AnyEvent):
        """An event; ``elapsed_time`` is the host's time between two records.

        Makes a ``torch.Event``: torch's methods that take an event refuse a subclass.
        """

        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
            return torch.Event(device="neuron", enable_timing=enable_timing)

    def current_stream(device: Any = None) -> torch.Stream:
        return torch.accelerator.current_stream(torch.device("neuron", _index(device, native)))

    def default_stream(device: Any = None) -> torch.Stream:
        index = _index(device, native)
        return torch.Stream(
            stream_id=0, device_index=index, device_type=torch._C._autograd.DeviceType.PrivateUse1.value
        )

    def set_stream(stream: torch.Stream) -> None:
        torch.accelerator.set_stream(stream)

    class stream:
        """Makes a stream the current one inside a ``with``; None changes nothing."""

        def __init__(self, stream: torch.Stream | None) -> None:
            self.stream = stream
            self.previous: torch.Stream | None = None

        def __enter__(self) -> torch.Stream | None:
            if self.stream is not None:
                self.previous = torch.accelerator.current_stream(self.stream.device)
                torch.accelerator.set_stream(self.stream)
            return self.stream

        def __exit__(
            self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
        ) -> None:
            if self.previous is not None:
                torch.accelerator.set_stream(self.previous)

    return {
        "Stream": Stream,
        "Event": Event,
        "stream": stream,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "set_stream": set_stream,
    }


def _memory(native: ModuleType) -> dict[str, Any]:
    def memory_stats(device: Any = None) -> dict[str, Any]:
        return collections.OrderedDict(sorted(native.memory_stats(_index(device, native)).items()))

    def figure(name: str) -> Any:
        def read(device: Any = None) -> int:
            return int(native.memory_stats(_index(device, native))[name])

        return read

    def reset_peak_memory_stats(device: Any = None) -> None:
        native.reset_stats(_index(device, native), True)

    def reset_accumulated_memory_stats(device: Any = None) -> None:
        native.reset_stats(_index(device, native), False)

    def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
        index = _index(device, native)
        lines = [f"neuron:{index} (emulated)"]
        lines += [f"{name:32}{value:>18,}" for name, value in memory_stats(index).items()]
        return "\n".join(lines)

    def mem_get_info(device: Any = None) -> tuple[int, int]:
        from neuron_explorer.neuron import emulator

        settings = emulator.enabled()
        total = settings.memory_bytes if settings else 0
        return total - figure("allocated_bytes.current")(device), total

    def empty_cache() -> None:
        return None

    return {
        "memory_stats": memory_stats,
        "memory_allocated": figure("allocated_bytes.current"),
        "max_memory_allocated": figure("allocated_bytes.peak"),
        "memory_reserved": figure("reserved_bytes.current"),
        "max_memory_reserved": figure("reserved_bytes.peak"),
        "reset_peak_memory_stats": reset_peak_memory_stats,
        "reset_accumulated_memory_stats": reset_accumulated_memory_stats,
        "memory_summary": memory_summary,
        "mem_get_info": mem_get_info,
        "empty_cache": empty_cache,
    }


def _random(native: ModuleType) -> dict[str, Any]:
    def generator(device: Any) -> torch.Generator:
        return native.default_generator(_index(device, native))

    def manual_seed(seed: int) -> None:
        generator(None).manual_seed(int(seed))

    def manual_seed_all(seed: int) -> None:
        for index in range(native.device_count()):
            generator(index).manual_seed(int(seed))

    def seed() -> int:
        value = random.SystemRandom().getrandbits(63)
        manual_seed(value)
        return value

    def seed_all() -> int:
        value = random.SystemRandom().getrandbits(63)
        manual_seed_all(value)
        return value

    def initial_seed() -> int:
        return generator(None).initial_seed()

    def get_rng_state(device: Any = "neuron") -> torch.Tensor:
        return generator(device).get_state()

    def get_rng_state_all() -> list[torch.Tensor]:
        return [get_rng_state(index) for index in range(native.device_count())]

    def set_rng_state(new_state: torch.Tensor, device: Any = "neuron") -> None:
        generator(device).set_state(new_state)

    def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
        for index, state in enumerate(new_states):
            set_rng_state(state, index)

    return {
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed_all,
        "seed": seed,
        "seed_all": seed_all,
        "initial_seed": initial_seed,
        "get_rng_state": get_rng_state,
        "get_rng_state_all": get_rng_state_all,
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
    }
