"""What a recording could observe, and why not: so that nobody reads "none" where nobody looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuron_explorer.trace.recorders.compiler import Compilations

from neuron_explorer.trace.recorders import (
    collective_waits,
    context_switches,
    data_wait,
    device_events,
    sync,
    torch_private,
)
from neuron_explorer.trace.recorders.compiler_capabilities import compiler_capabilities

__all__ = ["capabilities"]

_TWIN_LIMITS = {
    "other_threads": "the Python recorder sees only the thread that started it",
    "nested_operators": "the Python recorder sees composite operators only as the operators they are made "
    "of, and nothing inside a tensor subclass",
    "compiled_launches": "the Python recorder does not see the launch of a compiled region, "
    "only operators the compiled code calls",
    "autograd_nodes": "the Python recorder sees a backward node from its first to its last operator, "
    "and not the nodes that run none",
    "forked_children": "the Python recorder does not record child processes",
}


def capabilities(
    *,
    recorder: str,
    stacks: bool,
    shapes: bool,
    tensors: bool,
    memory: str | None = None,
    sync_started: bool,
    switches: bool,
    device_time: str = "not started",
    compiler: Compilations | None = None,
    distributed: bool = False,
    waits_started: bool = False,
) -> dict[str, dict[str, Any]]:
    """name → {"observed": bool, "reason": str}; a reason beside True is a limit, not a refusal.

    ``memory``: what of it is not heard; None: it was not asked for.
    """
    lost = torch_private.missing()
    twin = recorder == "twin"
    accelerator = torch_private.initialised_accelerator()
    no_stacks = "recorded with stacks=False"
    result = {
        "operators": _yes(),
        "stacks": _yes() if stacks else _no(no_stacks),
        "shapes": _yes() if shapes else _no("recorded with shapes=False"),
        "tensors": _yes() if tensors else _no("recorded with tensors=False (the default)"),
        "modules": _modules(stacks, lost),
        "backward_lines": _backward_lines(stacks, twin, lost),
        "gc": _yes(),
        "data_wait": _yes(data_wait.LIMITS),
        "sync": _sync(accelerator, sync_started),
        "steps": _yes(),
        "context_switches": _yes("sampled at prof.step() and at the end")
        if switches
        else _no(context_switches.unavailable() or "not sampled"),
        "device_time": _no(device_time) if device_time else _yes(device_events.LIMITS),
        "memory": _no("recorded with memory=False (the default)") if memory is None else _yes(memory),
        **compiler_capabilities(compiler),
        "collectives": _collectives(shapes, twin, distributed, waits_started),
        "fallback": _no("operators that fell back to the CPU are not told from others"),
    }
    if accelerator is None:
        result["fallback"] = _no("no accelerator was in use")
    elif accelerator == "neuron":
        result.update(_neuron(twin))
    result["same_compilations"] = _yes()
    if twin:
        result.update({name: _no(reason) for name, reason in _TWIN_LIMITS.items()})
        if memory is not None:
            result["memory"] = _no("the Python recorder does not hear the allocators")
        if not torch_private.compiler_ignores_mode():
            result["same_compilations"] = _no(
                "with this version of torch the Python recorder makes torch.compile compile again"
            )
    else:
        result.update({name: _yes() for name in _TWIN_LIMITS})
    return result


def _neuron(twin: bool) -> dict[str, Any]:
    from neuron_explorer.neuron import backend

    names = backend.fallback_operators()
    emulated = backend.emulated()
    result = {}
    if not names.found:
        result["fallback"] = _no(names.reason)
    elif emulated and not twin:
        result["fallback"] = _yes()
    elif emulated:
        result["fallback"] = _yes("only their names: the Python recorder does not see the fallbacks themselves")
    else:
        result["fallback"] = _yes("only their names since the process began: TorchNeuron counts no calls")
    return result


def _yes(limit: str = "") -> dict[str, Any]:
    return {"observed": True, "reason": limit}


def _no(reason: str) -> dict[str, Any]:
    return {"observed": False, "reason": reason}


def _collectives(shapes: bool, twin: bool, distributed: bool, waits_started: bool) -> dict[str, Any]:
    if not distributed:
        return _no("the program made no process group")
    if not shapes:
        return _no("recorded with shapes=False: operators do not say which process group they are called on")
    limits = [collective_waits.LIMITS if waits_started else "waits were not seen: torch.distributed came into use late"]
    if twin:
        limits.append("the Python recorder does not see when a collective is under way, only its submission")
    return _yes("; ".join(limits))


def _modules(stacks: bool, lost: dict[str, str]) -> dict[str, Any]:
    if not stacks:
        return _no("recorded with stacks=False")
    if any("_wrapped_call_impl" in name for name in lost):
        return _no("this version of torch calls modules in a way that is not known")
    return _yes("a direct call of forward() and submodules inside a ScriptModule are not seen")


def _backward_lines(stacks: bool, twin: bool, lost: dict[str, str]) -> dict[str, Any]:
    if not stacks:
        return _no("recorded with stacks=False")
    if twin and any("_autograd_node" in name or "_get_sequence_nr" in name for name in lost):
        return _no("this version of torch does not say which backward node runs")
    return _yes("nodes made before the recording began have no line")


def _sync(accelerator: str | None, started: bool) -> dict[str, Any]:
    if accelerator is None:
        return _no("no accelerator was in use")
    if not started:
        return _no("the accelerator was first used after the recording began")
    return _yes(sync.LIMITS)
