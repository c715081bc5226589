"""Torch's own names of the parts of a compilation, and what they are."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_envelope", "phase_of"]

_ENVELOPES: Final = re.compile(
    r"dynamo|entire_frame_compile|_compile\.compile_inner|entire_backward_compile|backward\._backward_impl|"
    r"compiled_autograd|compile_attempt_\d+"
)

_EXACT: Final[dict[str, str]] = {
    "bytecode_tracing": "bytecode_tracing",
    "compiler_collective": "bytecode_tracing",
    "build_guards": "build_guards",
    "guard_collective": "build_guards",
    "precompile_build_guards": "build_guards",
    "backend_compile": "backend",
    "OutputGraph.call_user_compiler": "backend",
    "compile_fx_inner": "backend",
    "inductor_compile": "backend",
    "fx_codegen_and_compile": "backend",
    "create_aot_dispatcher_function": "aot",
    "min_cut_rematerialization_partition": "aot",
    "additional_fake_tensor_prop": "aot",
    "insert_deferred_runtime_asserts": "graph_passes",
    "convert_conv_weights_to_channels_last": "graph_passes",
    "GraphLowering.run": "lowering",
    "Scheduler.__init__": "lowering",
    "Scheduler.fused_nodes": "lowering",
    "Scheduler.create_combo_kernel_nodes": "lowering",
    "code_gen": "code_generation",
    "generate_kernel_code_from_nodes": "code_generation",
    "GraphLowering.codegen": "code_generation",
    "GraphLowering.codegen_subgraph": "code_generation",
    "GraphLowering.compile_to_fn": "code_generation",
    "Scheduler.codegen": "code_generation",
    "GraphLowering.compile_to_module": "kernel_compile",
    "PyCodeCache.load_by_key_path": "kernel_compile",
    "compile_file": "kernel_compile",
    "reload_kernel_in_parent": "kernel_compile",
    "inductor_codecache_torch_key": "cache",
    "after_deserialization": "cache",
    "GraphPickler.loads": "cache",
    "CompiledArtifact.load": "cache",
    "CompiledArtifact.save": "cache",
    "aoti_serialize_constants": "code_generation",
}

_FORMS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(form), name)
    for form, name in (
        (r"autotun|benchmark|do_bench|coordinate_descent", "autotuning"),
        (r"[fb]w_compiler", "backend"),
        (r"^aot_|^invoke_subgraph_|^joint_", "aot"),
        (r"^pass\.|_passes$|^fx[._]bucketing|^debug_insert_nops", "graph_passes"),
        (r"^Scheduler\.", "lowering"),
        (r"^compile_fx", "backend"),
        (r"^pgo\.|^TritonBundler|^CacheBase|_cache_(?:hit|miss|bypass)|FxGraphCache|AOTAutogradCache", "cache"),
        (r"^async_compile|precompile|triton_compile|aoti_compile", "kernel_compile"),
        (r"WrapperCodegen|CppWrapper|codegen", "code_generation"),
    )
)


def phase_of(label: str) -> str:
    """The key of :data:`~neuron_explorer.trace.compiles.PHASES` for torch's name of a part."""
    known = _EXACT.get(label)
    if known is not None:
        return known
    return next((name for form, name in _FORMS if form.search(label)), "other")


def is_envelope(label: str) -> bool:
    """Whether this name stands for the whole of a compilation or of an attempt, so is no part of it."""
    return _ENVELOPES.fullmatch(label) is not None
