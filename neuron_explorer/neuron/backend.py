"""The adapter to TorchNeuron: every name of it that the profiler reads, one function per fact.

TorchNeuron is in public beta and its names move, and an older package of the same name
(`torch_neuronx` up to 2.9) is something else, built on XLA. So every name is probed, and each
function returns a :class:`Fact`: the value, or why it could not be had. Nothing here imports
torch_neuronx, starts the device, or resets a counter of the program's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

__all__ = [
    "CHEAP", "COSTLY", "Fact", "cache_statistics", "core_count", "device", "device_name", "dynamo_metrics",
    "emulated", "executed_operators", "facts", "fallback_operators", "implementation", "in_use", "loaded",
    "memory_statistics", "sync_places", "synchronize", "version",
]  # fmt: skip

PACKAGE: Final = "torch_neuronx"
MOST_NAMES: Final = 2000
MOST_GRAPHS: Final = 500
MOST_CHARACTERS: Final = 200
_LAST_XLA: Final = (2, 9)
_GRAPH_FIELDS: Final = (
    "graph_id", "graph_name", "model_name", "has_collectives", "graph_node_count", "timestamp",
    "torch_neuronx_fx_passes_us", "torch_neuronx_lower_us", "torch_neuronx_compile_us",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One thing that was asked: its value and the name it came from, or the reason it is missing."""

    value: Any = None
    source: str = ""
    reason: str = ""

    @property
    def found(self) -> bool:
        """Whether ``value`` is an answer."""
        return not self.reason


# Which one is it ----------------------------------------------------------------------------


def loaded() -> ModuleType | None:
    """The torch_neuronx that the program imported, or None."""
    return sys.modules.get(PACKAGE)


def emulated() -> bool:
    """Whether the ``neuron`` device is this package's emulator."""
    return getattr(loaded(), "is_emulated", False) is True


def version() -> Fact:
    """The version of torch_neuronx."""
    package = loaded()
    if package is None:
        return Fact(reason="torch_neuronx is not imported")
    value = getattr(package, "__version__", None)
    if not isinstance(value, str):
        return Fact(reason="torch_neuronx.__version__ is missing")
    return Fact(value[:MOST_CHARACTERS], f"{PACKAGE}.__version__")


def implementation() -> Fact:
    """``native`` (PyTorch's own device ``neuron``) or ``xla`` (the older package of the same name)."""
    if loaded() is None:
        return Fact(reason="torch_neuronx is not imported")
    if _device_module() is not None and _private_name() == "neuron":
        return Fact("native", "torch.neuron")
    numbers = re.match(r"(\d+)\.(\d+)", version().value or "")
    old = numbers is not None and (1, 0) <= (int(numbers[1]), int(numbers[2])) <= _LAST_XLA
    if "torch_xla" in sys.modules or old:
        return Fact("xla", f"{PACKAGE}.__version__" if old else "torch_xla")
    return Fact(reason="torch_neuronx is imported, but torch has no device called neuron")


def in_use() -> bool:
    """Whether the program has used the device. Asking does not start it."""
    if implementation().value != "native":
        return False
    asked = _call(_device_module(), "is_initialized", "torch.neuron.is_initialized")
    if asked.found:
        return bool(asked.value)
    return bool(executed_operators().value)  # an operator ran, so the device was started


# Facts that cost nothing --------------------------------------------------------------------


def core_count() -> Fact:
    """Number of devices of this process; on the device one logical NeuronCore each."""
    return _checked(_call(_device_module(), "device_count", "torch.neuron.device_count"), int)


def device_name() -> Fact:
    """The device's own name."""
    return _checked(_call(_device_module(), "get_device_name", "torch.neuron.get_device_name"), str)


def fallback_operators() -> Fact:
    """Names of operators that ran on the CPU since the process began: no counts, no places."""
    return _names("get_fallback_ops")


def executed_operators() -> Fact:
    """Names of operators that ran since the process began."""
    return _names("get_executed_ops")


def cache_statistics() -> Fact:
    """Counters of the cache of compiled artifacts since the process began."""
    place = f"{PACKAGE}._C._get_compilation_cache_stats"
    return _numbers(_call(getattr(loaded(), "_C", None), "_get_compilation_cache_stats", place))


def metrics_counters() -> Fact:
    """Counters of ``torch_neuronx.metrics``, which is off unless the program turned it on."""
    module = getattr(loaded(), "metrics", None)
    names = _call(module, "get_counter_names", f"{PACKAGE}.metrics.get_counter_names")
    if not names.found:
        return names
    found = {}
    for name in list(names.value or [])[:MOST_NAMES]:
        value = _call(module, "get_counter_value", "", str(name))
        if value.found and isinstance(value.value, int):
            found[str(name)[:MOST_CHARACTERS]] = value.value
    return Fact(found, names.source) if found else Fact(reason="torch_neuronx.metrics is off or empty")


def sync_places() -> list[tuple[Any, str, str]]:
    """(object, attribute, public name) of the functions in which the host waits for the device."""
    module = _device_module()
    found = module is not None and callable(getattr(module, "synchronize", None))
    return [(module, "synchronize", "torch.neuron.synchronize")] if found else []


# Facts that wait for the device -------------------------------------------------------------


def synchronize() -> Fact:
    """Wait until the device has done all its work."""
    done = _call(_device_module(), "synchronize", "torch.neuron.synchronize")
    return Fact(True, done.source) if done.found else done


def memory_statistics() -> Fact:
    """Memory of the current device in bytes. The allocator is asynchronous: synchronise before."""
    return _numbers(_call(_device_module(), "memory_stats", "torch.neuron.memory_stats"))


def dynamo_metrics() -> Fact:
    """One entry per compiled graph, times in µs. TorchNeuron synchronises the device to answer.

    A graph that came from a cache shows the time of its original compilation.
    """
    found = _call(_device_module(), "get_dynamo_metrics", "torch.neuron.get_dynamo_metrics")
    if not found.found:
        found = _call(loaded(), "get_dynamo_metrics", f"{PACKAGE}.get_dynamo_metrics")
    if not found.found:
        return found
    try:
        graphs = [_graph(item) for item in list(found.value)[:MOST_GRAPHS]]
    except Exception as error:
        return Fact(reason=f"{found.source} returned something unknown ({type(error).__name__})")
    return Fact(graphs, found.source)


CHEAP: Final[Mapping[str, Callable[[], Fact]]] = {
    "implementation": implementation,
    "version": version,
    "core_count": core_count,
    "device_name": device_name,
    "fallback_operators": fallback_operators,
    "executed_operators": executed_operators,
    "cache_statistics": cache_statistics,
    "metrics_counters": metrics_counters,
}
COSTLY: Final[Mapping[str, Callable[[], Fact]]] = {
    "synchronize": synchronize,
    "memory_statistics": memory_statistics,
    "dynamo_metrics": dynamo_metrics,
}
_NEEDS_DEVICE: Final = ("core_count", "device_name", *COSTLY)


def facts(*, costly: bool = False) -> dict[str, Fact]:
    """Every fact by name. ``costly`` adds those that wait for the device: after the measured region.

    What would start the device is not asked where the program has not used it.
    """
    used = in_use()
    wanted = {**CHEAP, **COSTLY} if costly else CHEAP
    unused = Fact(reason="the device was not used")
    return {name: ask() if used or name not in _NEEDS_DEVICE else unused for name, ask in wanted.items()}


def device() -> dict[str, Any]:
    """What the metadata of a trace says about the ``neuron`` device in use."""
    name, count = device_name(), core_count()
    return {
        "type": "neuron",
        "name": name.value if name.found else "neuron",
        "emulated": emulated(),
        "count": count.value if count.found else -1,
        "implementation": implementation().value or "",
        "version": version().value or "",
    }


# Probing ------------------------------------------------------------------------------------


def _device_module() -> Any:
    return getattr(sys.modules.get("torch"), "neuron", None)


def _private_name() -> str:
    ask = getattr(getattr(sys.modules.get("torch"), "_C", None), "_get_privateuse1_backend_name", None)
    try:
        return str(ask()) if ask is not None else ""
    except Exception:
        return ""


def _call(owner: Any, name: str, source: str, *arguments: Any) -> Fact:
    if owner is None:
        place = source.rpartition(".")[0]
        return Fact(reason=f"{place} is missing")
    function = getattr(owner, name, None)
    if not callable(function):
        return Fact(reason=f"{source} is missing")
    try:
        return Fact(function(*arguments), source)
    except Exception as error:  # a name of a beta may do anything
        text = " ".join(str(error).split())[:MOST_CHARACTERS]
        return Fact(reason=f"{source} failed: {text or type(error).__name__}")


def _checked(fact: Fact, kind: type) -> Fact:
    if not fact.found:
        return fact
    if not isinstance(fact.value, kind) or isinstance(fact.value, bool):
        return Fact(reason=f"{fact.source} returned {type(fact.value).__name__}, not {kind.__name__}")
    return Fact(fact.value[:MOST_CHARACTERS], fact.source) if isinstance(fact.value, str) else fact


def _names(name: str) -> Fact:
    found = _call(loaded(), name, f"{PACKAGE}.{name}")
    if not found.found:
        return found
    try:
        names = sorted({str(item)[:MOST_CHARACTERS] for item in found.value})
    except Exception as error:
        return Fact(reason=f"{found.source} returned something unknown ({type(error).__name__})")
    return Fact(names[:MOST_NAMES], found.source)


def _numbers(fact: Fact) -> Fact:
    """A flat mapping of names to numbers; nested mappings are joined with dots."""
    if not fact.found:
        return fact
    if not isinstance(fact.value, Mapping):
        return Fact(reason=f"{fact.source} returned {type(fact.value).__name__}, not a mapping")
    flat: dict[str, int | float] = {}
    for key, value in fact.value.items():
        parts = value.items() if isinstance(value, Mapping) else (("", value),)
        for part, number in parts:
            if type(number) is int or (type(number) is float and number == number and abs(number) < 1e300):
                flat[(f"{key}.{part}" if part else str(key))[:MOST_CHARACTERS]] = number
    return Fact(dict(list(flat.items())[:MOST_NAMES]), fact.source)


def _graph(item: Any) -> dict[str, Any]:
    values = {
        name: item.get(name) if isinstance(item, Mapping) else getattr(item, name, None) for name in _GRAPH_FIELDS
    }
    return {
        name: value[:MOST_CHARACTERS] if isinstance(value, str) else value
        for name, value in values.items()
        if isinstance(value, str | int | bool)
    }
