"""Random numbers of a compiled graph that is computed again in its backward pass.

Where activations are recomputed, torch wraps operators that may draw random numbers so that the
second time draws what the first drew. It knows how for the devices of its own tree only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from neuron_explorer.record.on_import import when_imported

_MODULE = "torch._prims.rng_prims"


def teach_torch() -> None:
    """Once per process: adds the device to torch's two wrappers, now or when torch imports them."""
    when_imported(_MODULE, _teach)


def _teach() -> None:
    from torch._prims import rng_prims

    def save(operator: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        device = _device_of(arguments, named)
        return torch.neuron.get_rng_state(device), operator(*arguments, **named)

    def restore(state: torch.Tensor, operator: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        device = _device_of(arguments, named)
        current = torch.neuron.get_rng_state(device)
        torch.neuron.set_rng_state(state, device)
        try:
            return operator(*arguments, **named)
        finally:
            torch.neuron.set_rng_state(current, device)

    _add(getattr(rng_prims, "run_and_save_rng_state", None), save, 1)
    _add(getattr(rng_prims, "run_with_rng_state", None), restore, 2)


def _device_of(arguments: Any, named: dict[str, Any]) -> torch.device | None:
    """The emulated device that a wrapped operator runs on, or None for another one."""
    for value in (named.get("device"), *arguments):
        device = value.device if isinstance(value, torch.Tensor) else value
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            return device if device.type == "neuron" else None
    return None


def _add(wrapper: Any, ours: Callable[..., Any], first: int) -> None:
    """``first``: where the arguments of the wrapped operator begin."""
    select = torch._C.DispatchKey.BackendSelect
    kernels = getattr(wrapper, "py_kernels", {})
    others = kernels.get(select)
    if others is None:  # another torch: it refuses the device, as it would without this
        return

    def run(*arguments: Any, **named: Any) -> Any:
        chosen = ours if _device_of(arguments[first:], named) is not None else others
        return chosen(*arguments, **named)

    kernels[select] = run
    getattr(wrapper, "_dispatch_cache", {}).clear()
