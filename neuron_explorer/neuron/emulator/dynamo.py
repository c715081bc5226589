"""``torch.compile(backend="neuron")`` on the emulated device.

Dynamo and AOTAutograd do what they do on the device; then the graph is checked for what the
device refuses (symbolic dimensions) and runs operator by operator, as one launch.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from neuron_explorer.neuron.emulator import Settings
from neuron_explorer.neuron.emulator.artifacts import ArtifactCache
from neuron_explorer.trace.recorders import graph_lines

DYNAMIC_TRUE = (
    "torch.compile(dynamic=True) is not supported by the neuron backend: it compiles for static shapes. "
    "Use dynamic=False; each new shape then compiles once (pad or bucket the inputs to keep shapes few)."
)
SYMBOLIC = (
    "[NCC_EMOD025] the graph has a dynamic dimension ({where}). After a second shape Dynamo marks a changing "
    "dimension as dynamic, and the neuron compiler has no dynamic shapes. Use torch.compile(dynamic=False), or "
    "pad or bucket the inputs."
)
RANDOM_STATE = "rng_state_output"
"""How torch's partitioner names the state of a generator that a backward graph is given: always as
long, but torch marks its length as dynamic."""


@dataclass(frozen=True)
class NeuronCompilationMetrics:
    """One compiled graph; the field names are TorchNeuron's. Times are this machine's, in µs."""

    graph_id: str
    graph_name: str
    model_name: str
    has_collectives: bool
    graph_node_count: int
    timestamp: str
    torch_neuronx_fx_passes_us: int
    torch_neuronx_lower_us: int
    torch_neuronx_compile_us: int


class CompileMetrics:
    """The compiled graphs of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[NeuronCompilationMetrics] = []

    def add(self, item: NeuronCompilationMetrics) -> None:
        with self._lock:
            self._items.append(item)

    def all(self) -> list[NeuronCompilationMetrics]:
        with self._lock:
            return list(self._items)

    def clear(self) -> None:
        with self._lock:
            self._items.clear()


def make_backend(
    native: ModuleType, settings: Settings, cache: ArtifactCache, metrics: CompileMetrics
) -> Callable[..., Any]:
    """The function that is registered as Dynamo's backend ``neuron``."""
    numbers = itertools.count()

    def compiler(stage: str, name: str, symbolic: str) -> Callable[..., Any]:
        def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            start = time.perf_counter_ns()
            where = _symbolic_dimension(graph, inputs)
            if where is not None and symbolic == "error":
                raise RuntimeError(SYMBOLIC.format(where=where))
            program = _describe(graph)
            graph_lines.note(graph)
            passes_us = (time.perf_counter_ns() - start) // 1000
            unshown: dict[str, str] = {}

            def compile_for(values: Sequence[Any]) -> str:
                began = time.perf_counter_ns()
                key, known = _make_artifact(cache, _describe_inputs(values) + program)
                unshown[key] = "disk" if known else "miss"
                metrics.add(_metrics(graph, key, f"{name}_{next(numbers)}_{stage}", name, passes_us, began))
                return key

            def launching(key: str) -> None:
                # Recorders leave out what happens while a compiler traces, so an artifact shows at
                # its first launch.
                told = unshown.pop(key, None)
                if told is not None:
                    native.show_compilation(key, f"graph of {_operators(graph)} operators", told)
                cache.launched(key)

            # A symbolic graph is compiled for each set of sizes that it is called with.
            key = None if where is not None else compile_for(inputs)
            return _launcher(native, graph, key, compile_for, launching)

        return compile_graph

    def neuron_backend(
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        options: dict[str, Any] | None = None,
        mode: str | None = None,
    ) -> Callable[..., Any]:
        options = dict(options or {})
        name = str(options.pop("model_name", "model"))
        symbolic = str(options.pop("dynamic", settings.dynamic))
        options.pop("fallback_execution", None)
        if options:
            raise ValueError(f"unknown options of the neuron backend: {', '.join(sorted(options))}")
        if mode not in (None, "default"):
            warnings.warn(f"the neuron backend knows only mode='default'; {mode!r} is ignored", stacklevel=2)
        if _asked_for_dynamic():
            raise RuntimeError(DYNAMIC_TRUE)
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(
            fw_compiler=compiler("forward", name, symbolic),
            bw_compiler=compiler("backward", name, symbolic),
            inference_compiler=compiler("inference", name, symbolic),
        )(graph, inputs)

    return neuron_backend


def select_automatically(neuron_backend: Callable[..., Any]) -> None:
    """Makes a plain ``torch.compile(model)`` use the device's backend for graphs on the device."""
    wrapper = getattr(torch, "_TorchCompileInductorWrapper", None)
    if wrapper is None:  # another torch: the backend must be named
        return
    inductor = wrapper.__call__

    def call(self: Any, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        if _on_device(graph, inputs):
            return neuron_backend(graph, inputs)
        return inductor(self, graph, inputs)

    wrapper.__call__ = call


def _on_device(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    made = (node.meta.get("example_value") for node in graph.graph.nodes)  # a graph may have no inputs
    tensors = itertools.chain(inputs, graph.parameters(), graph.buffers(), made)
    return any(isinstance(tensor, torch.Tensor) and tensor.device.type == "neuron" for tensor in tensors)


def _asked_for_dynamic() -> bool:
    """Whether the compilation under way was asked for with ``dynamic=True``."""
    return not torch._dynamo.config.assume_static_by_default


def _symbolic_dimension(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for position, value in enumerate(inputs):
        name = placeholders[position].name if position < len(placeholders) else f"input {position}"
        if name.startswith(RANDOM_STATE):
            continue
        if isinstance(value, torch.SymInt):
            return f"{name} is {value}"
        if isinstance(value, torch.Tensor):
            for dimension, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    return f"dimension {dimension} of {name} is {size}"
    return None


def _make_artifact(cache: ArtifactCache, description: str) -> tuple[str, bool]:
    """The key of a graph's artifact, and whether it existed before."""
    start = time.perf_counter_ns()
    key = hashlib.sha256(description.encode()).hexdigest()[:16]
    known = cache.graph(key, description, (time.perf_counter_ns() - start) / 1e6)
    counters = torch._dynamo.utils.counters["neuron"]
    counters["compiled_graphs"] += 1
    counters["artifact_hit" if known else "artifact_miss"] += 1
    return key, known


def _metrics(
    graph: torch.fx.GraphModule, key: str, graph_name: str, model: str, passes_us: int, began: int
) -> NeuronCompilationMetrics:
    return NeuronCompilationMetrics(
        graph_id=key,
        graph_name=graph_name,
        model_name=model,
        has_collectives=any("_c10d" in str(node.target) for node in graph.graph.nodes),
        graph_node_count=_operators(graph),
        timestamp=str(time.time_ns()),
        torch_neuronx_fx_passes_us=passes_us,
        torch_neuronx_lower_us=0,
        torch_neuronx_compile_us=(time.perf_counter_ns() - began) // 1000,
    )


def _launcher(
    native: ModuleType,
    graph: torch.fx.GraphModule,
    key: str | None,
    compile_for: Callable[[Sequence[Any]], str],
    launching: Callable[[str], None],
) -> Callable[..., Any]:
    """The compiled graph: one launch a call. Without a key it is compiled for each new set of sizes."""
    from torch._functorch.aot_autograd import make_boxed_func

    run = make_boxed_func(graph.forward)
    by_sizes: dict[str, str] = {}

    def launch(values: list[Any]) -> Any:
        used = key
        if used is None:
            sizes = _describe_inputs(values)
            used = by_sizes.get(sizes)
            if used is None:
                used = by_sizes[sizes] = compile_for(values)
        launching(used)
        native.enter_graph()
        try:
            return run(values)
        finally:
            native.leave_graph()

    launch._boxed_call = True  # type: ignore[attr-defined]
    return launch


def _operators(graph: torch.fx.GraphModule) -> int:
    return sum(node.op == "call_function" for node in graph.graph.nodes)


def _describe_inputs(inputs: Sequence[Any]) -> str:
    """The shapes that a graph is compiled for, as text."""
    lines = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            lines.append(f"input {value.dtype} {[str(size) for size in value.shape]}\n")
        else:
            lines.append(f"input {value}\n")
    return "".join(lines)


def _describe(graph: torch.fx.GraphModule) -> str:
    """The graph as text: with equal inputs and equal text, an equal artifact."""
    lines = []
    for node in graph.graph.nodes:
        lines.append(f"{node.name} = {node.op} {node.target} {node.args} {node.kwargs}")
    return "\n".join(lines)
