"""Which blocks of memory hold parameters, gradients, optimizer state and buffers.

Parameters, their gradients and the optimizer's state are noted where a step of the optimizer
begins (the native recorder shows the optimizer that stands in torch's own frame around the step);
parameters and buffers of the modules that events named, at `prof.step()` and at the end. Only
stored attributes are read, nothing is dispatched, and no reference outlives the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from neuron_explorer.trace.recorders.torch_private import optimizer_step_code, without_torch_function

__all__ = ["LIMITS", "HeldMemory", "optimizer_call"]

LIMITS: Final = (
    "what torch's CPU allocator hands out, and what other devices' allocators report to torch's profiler; blocks from "
    "before the recording are known only where they hold parameters, buffers, gradients or optimizer state"
)

# Indices of the words that the native recorder writes (`kWordNames` in memory.h).
_PARAMETER, _STATE, _BUFFER = 4, 6, 7
_MOST_TENSORS: Final = 100_000
_FIRST_STEPS: Final = 3  # afterwards modules are looked at only where new ones were seen


def optimizer_call() -> Any:
    """The code object that torch puts around an optimizer's step; None where it is not known."""
    return optimizer_step_code()


class HeldMemory:
    """Tells the native recorder (``module``) what blocks hold."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._steps = 0
        self._modules = -1

    def step(self) -> None:
        """A step of the program ended: note what the modules hold, where that may be new."""
        self._steps += 1
        modules = self._module.modules()
        if self._steps <= _FIRST_STEPS or len(modules) != self._modules:
            self._note_modules(modules)
        self._module.hear()

    def limits(self) -> str:
        """What is not heard, in words."""
        heard = self._module.hear()
        if heard is None or heard["cpu"]:
            return LIMITS
        return f"the CPU's allocator is not torch's and is not heard; {LIMITS}"

    def finish(self) -> None:
        """The recording ends."""
        self._note_modules(self._module.modules())

    def optimizer(self, optimizer: Any) -> None:
        """A step of ``optimizer`` begins. Called by the native recorder; what it raises is dropped."""
        fields = object.__getattribute__(optimizer, "__dict__")
        groups, state = fields.get("param_groups"), fields.get("state")
        parameters = [p for g in _plain(groups, list) if isinstance(g, dict) for p in _plain(g.get("params"), list)]
        self._note(_PARAMETER, parameters)
        held = (v for s in dict.values(_plain(state, dict)) if isinstance(s, dict) for v in dict.values(s))
        self._note(_STATE, held)

    def _note_modules(self, modules: list[Any]) -> None:
        self._modules = len(modules)
        for word, name in ((_PARAMETER, "_parameters"), (_BUFFER, "_buffers")):
            found = []
            for module in modules:
                fields = object.__getattribute__(module, "__dict__")
                found += list(dict.values(_plain(fields.get(name), dict)))
            self._note(word, found)

    def _note(self, word: int, values: Iterable[Any]) -> None:
        import torch

        tensors = []
        for value in values:
            if issubclass(type(value), torch.Tensor):  # not isinstance: a proxy may answer for its class
                tensors.append(value)
                if len(tensors) >= _MOST_TENSORS:
                    break
        if tensors:
            with without_torch_function():
                self._module.note(word, [t._cdata for t in tensors])


def _plain(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else kind()
