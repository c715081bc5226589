"""The adapter: what it reads where a name exists, and what it says where one is missing."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from neuron_explorer.neuron import backend

torch = pytest.importorskip("torch")


@dataclass
class Graph:
    """As TorchNeuron describes a compiled graph, with a field that we do not know."""

    graph_id: str = "k" * 400
    graph_name: str = "model_0_forward_0"
    has_collectives: bool = False
    graph_node_count: int = 7
    torch_neuronx_compile_us: int = 1500
    later_field: object = object()


def native_package() -> ModuleType:
    """A stand-in for TorchNeuron 2.13 with every name that is read."""
    package, low = ModuleType("torch_neuronx"), ModuleType("torch_neuronx._C")
    package.__version__ = "2.13.3.0"
    package._C = low
    package.get_fallback_ops = lambda: {"aten::unique_dim", "aten::acos"}
    package.get_executed_ops = lambda: ["aten::add.Tensor"]
    low._get_compilation_cache_stats = lambda: {"total_entries": 3, "hit_rate": 0.5, "name": "x", "nan": float("nan")}
    return package


def device_module() -> ModuleType:
    module = ModuleType("torch.neuron")
    module.calls = []
    module.device_count = lambda: 4
    module.get_device_name = lambda: "NC_v3"
    module.synchronize = lambda: module.calls.append("synchronize")
    module.memory_stats = lambda: {"allocated_bytes": {"current": 5, "peak": 9}, "num_ooms": 0}
    module.get_dynamo_metrics = lambda: [Graph(), {"graph_name": "second"}]
    return module


@pytest.fixture
def install(monkeypatch):
    def install(package=None, module=None, name="neuron"):
        if package is not None:
            monkeypatch.setitem(sys.modules, "torch_neuronx", package)
        if module is not None:
            monkeypatch.setattr(torch, "neuron", module, raising=False)
        monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: name)

    monkeypatch.delitem(sys.modules, "torch_neuronx", raising=False)
    monkeypatch.delattr(torch, "neuron", raising=False)
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    return install


def test_everything_is_found_under_torchneurons_names(install):
    install(native_package(), device_module())
    facts = backend.facts(costly=True)
    assert {name: fact.reason for name, fact in facts.items() if not fact.found} == {
        "metrics_counters": "torch_neuronx.metrics is missing"
    }
    assert facts["implementation"].value == "native"
    assert facts["version"].value == "2.13.3.0"
    assert facts["core_count"].value == 4
    assert facts["fallback_operators"].value == ["aten::acos", "aten::unique_dim"]
    assert facts["cache_statistics"].value == {"total_entries": 3, "hit_rate": 0.5}
    assert facts["memory_statistics"].value == {
        "allocated_bytes.current": 5, "allocated_bytes.peak": 9, "num_ooms": 0,
    }  # fmt: skip
    first, second = facts["dynamo_metrics"].value
    assert first == {
        "graph_id": "k" * 200, "graph_name": "model_0_forward_0", "has_collectives": False,
        "graph_node_count": 7, "torch_neuronx_compile_us": 1500,
    }  # fmt: skip
    assert second == {"graph_name": "second"}
    assert facts["fallback_operators"].source == "torch_neuronx.get_fallback_ops"
    json.dumps({name: fact.value for name, fact in facts.items()})
    assert backend.device() == {
        "type": "neuron", "name": "NC_v3", "emulated": False, "count": 4, "implementation": "native",
        "version": "2.13.3.0",
    }  # fmt: skip


def test_without_the_package_nothing_is_found_and_each_says_why(install):
    install()
    facts = backend.facts(costly=True)
    assert not any(fact.found for fact in facts.values())
    assert all(fact.reason for fact in facts.values())
    assert facts["implementation"].reason == "torch_neuronx is not imported"
    assert "torch_neuronx" not in sys.modules


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        ("get_fallback_ops", "fallback_operators"), ("get_executed_ops", "executed_operators"),
        ("__version__", "version"), ("_C", "cache_statistics"),
    ],
)  # fmt: skip
def test_a_name_that_moved_loses_one_fact(install, gone, lost):
    package, module = native_package(), device_module()
    delattr(package, gone)
    module.is_initialized = lambda: True
    install(package, module)
    facts = backend.facts(costly=True)
    assert {name for name, fact in facts.items() if not fact.found} == {lost, "metrics_counters"}
    assert "missing" in facts[lost].reason
    assert ("torch_neuronx." + gone) in facts[lost].reason


@pytest.mark.parametrize(
    "gone", ["device_count", "get_device_name", "synchronize", "memory_stats", "get_dynamo_metrics"]
)
def test_a_name_of_the_device_module_that_moved(install, gone):
    module = device_module()
    delattr(module, gone)
    install(native_package(), module)
    missing = {name for name, fact in backend.facts(costly=True).items() if not fact.found} - {"metrics_counters"}
    assert len(missing) == 1


def test_metrics_are_also_looked_for_in_the_package(install):
    package, module = native_package(), device_module()
    package.get_dynamo_metrics, module.get_dynamo_metrics = module.get_dynamo_metrics, None
    install(package, module)
    assert backend.dynamo_metrics().source == "torch_neuronx.get_dynamo_metrics"


@pytest.mark.parametrize("version", ["2.9.0.2.15.32035", "2.1.2", "1.13.1"])
def test_the_older_package_of_the_same_name_is_xla(install, version):
    package = ModuleType("torch_neuronx")
    package.__version__ = version
    install(package, name="privateuseone")
    assert backend.implementation().value == "xla"
    assert not backend.in_use()
    assert not backend.fallback_operators().found


def test_xla_is_told_by_torch_xla(install, monkeypatch):
    package = ModuleType("torch_neuronx")
    monkeypatch.setitem(sys.modules, "torch_xla", ModuleType("torch_xla"))
    install(package, name="privateuseone")
    assert backend.implementation().value == "xla"


def test_an_early_snapshot_of_the_native_package_is_native(install):
    package = native_package()
    package.__version__ = "0.1.0"
    install(package, device_module())
    assert backend.implementation().value == "native"


def test_neither_of_the_two(install):
    package = ModuleType("torch_neuronx")
    package.__version__ = "2.14.1"
    install(package, name="other")
    assert "no device called neuron" in backend.implementation().reason


def test_an_unused_device_is_not_started(install):
    package, module = native_package(), device_module()
    package.get_executed_ops = lambda: []
    install(package, module)
    facts = backend.facts(costly=True)
    assert facts["core_count"].reason == facts["synchronize"].reason == "the device was not used"
    assert module.calls == []
    module.is_initialized = lambda: True
    assert backend.facts(costly=True)["synchronize"].found
    assert module.calls == ["synchronize"]


def test_only_costly_facts_wait_for_the_device(install):
    package, module = native_package(), device_module()
    install(package, module)
    assert set(backend.facts()) == set(backend.CHEAP)
    assert module.calls == []


def raising():
    raise RuntimeError("NRT is\ngone")


@pytest.mark.parametrize("answer", [raising, lambda: 3, lambda: "text", lambda: None, lambda: [[]], lambda: {"a": "b"}])
def test_any_answer_becomes_a_fact(install, answer):
    package, module = native_package(), device_module()
    module.is_initialized = lambda: True
    for owner, name in (
        (package, "get_fallback_ops"), (package, "get_executed_ops"), (package._C, "_get_compilation_cache_stats"),
        (module, "device_count"), (module, "get_device_name"), (module, "memory_stats"),
        (module, "get_dynamo_metrics"), (module, "synchronize"),
    ):  # fmt: skip
        setattr(owner, name, answer)
    install(package, module)
    facts = backend.facts(costly=True)
    json.dumps({name: [fact.value, fact.reason, fact.source] for name, fact in facts.items()})
    assert all("\n" not in fact.reason for fact in facts.values())
    assert isinstance(backend.device()["count"], int)


def test_long_answers_are_cut(install):
    package = native_package()
    package.get_fallback_ops = lambda: [f"{i}" + "x" * 1000 for i in range(5000)]
    install(package, device_module())
    names = backend.fallback_operators().value
    assert len(names) == backend.MOST_NAMES
    assert max(map(len, names)) == backend.MOST_CHARACTERS
