"""Every name of torch that is not public and that a recorder touches, probed in one place.

A name that is gone makes its feature "not observed"; it never breaks the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = [
    "accelerator_count",
    "accelerator_name",
    "can_hide_from_dynamo",
    "compiler_ignores_mode",
    "current_autograd_node",
    "custom_op_functions",
    "data_address",
    "device_types_of_dispatch_keys",
    "engine_code",
    "function_inside",
    "has_kernel",
    "hide_from_dynamo",
    "initialised_accelerator",
    "library_class",
    "logical_thread_id",
    "missing",
    "module_call_code",
    "operator_names",
    "optimizer_step_code",
    "sequence_number",
    "storage_and_version",
    "sync_places",
    "top_dispatch_mode",
    "tracing_mode_active",
    "without_torch_function",
]

# (module, attribute path, what is lost without it)
_NAMES: tuple[tuple[str, str, str], ...] = (
    ("torch._C", "_current_autograd_node", "which backward node an operator belongs to (Python recorder)"),
    ("torch._C._autograd", "_get_sequence_nr", "forward lines of backward nodes (Python recorder)"),
    ("torch.nn.modules.module", "Module._wrapped_call_impl", "module paths"),
    ("torch.utils._python_dispatch", "TorchDispatchMode.ignore_compile_internals",
     "the Python recorder beside torch.compile"),
    ("torch.autograd.graph", "_engine_run_backward", "lines of hooks inside backward (Python recorder)"),
    ("torch._C", "_get_dispatch_mode", "telling traced operators from executed ones (Python recorder)"),
    ("torch._C", "_dynamo.eval_frame.set_code_exec_strategy", "hiding this package from torch.compile"),
    ("torch._C", "_accelerator_synchronizeDevice", "waits in torch.accelerator.synchronize"),
    ("torch._C", "_dispatch_get_all_op_names", "which custom operators have a kernel"),
    ("torch._C", "_dispatch_has_kernel_for_dispatch_key", "which custom operators have a kernel"),
    ("torch.optim.optimizer", "Optimizer.profile_hook_step", "which memory holds gradients and optimizer state"),
    ("torch._library.custom_ops", "OPDEFS", "kernels of custom operators that run no operator inside"),
)  # fmt: skip


def _find(module: str, path: str) -> Any:
    import importlib

    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def missing() -> dict[str, str]:
    """The private names this torch lacks, each with what is lost."""
    lost = {}
    for module, path, loss in _NAMES:
        try:
            _find(module, path)
        except (ImportError, AttributeError):
            lost[f"{module}.{path}"] = loss
    return lost


def current_autograd_node() -> Callable[[], Any]:
    """A function that returns the backward node this thread runs, or None."""
    import torch

    return getattr(torch._C, "_current_autograd_node", lambda: None)


def sequence_number() -> Callable[[], int]:
    """A function that returns the number the next autograd node of this thread will get."""
    import torch

    autograd = getattr(torch._C, "_autograd", None)
    return getattr(autograd, "_get_sequence_nr", lambda: -1)


def logical_thread_id() -> int:
    """An id for the calling thread that backward nodes can be joined on."""
    import threading

    return threading.get_ident() & 0xFFFFFFFF


def module_call_code() -> Any:
    """The code object of the frame whose first local is the module that is called, or None."""
    import torch

    function = getattr(torch.nn.Module, "_wrapped_call_impl", None)
    return getattr(function, "__code__", None)


def engine_code() -> Any:
    """The code object of the Python frame below which backward runs, or None."""
    try:
        from torch.autograd.graph import _engine_run_backward
    except ImportError:
        return None
    return getattr(_engine_run_backward, "__code__", None)


def can_hide_from_dynamo() -> bool:
    """Whether :func:`hide_from_dynamo` works with this torch."""
    return _skip_strategy() is not None


def hide_from_dynamo(*functions: Any) -> None:
    """Make torch.compile pass over these functions and everything they call.

    Inside a compiled function that has a graph break, every Python frame that starts is
    offered to the compiler: a garbage-collector callback or the namer of modules would be
    compiled, and counted, as if it were the program's. Does not import torch._dynamo.
    """
    found = _skip_strategy()
    if found is None:
        return
    set_strategy, skip = found
    for function in functions:
        set_strategy(getattr(function, "__func__", function).__code__, skip)


def _skip_strategy() -> tuple[Any, Any] | None:
    import torch

    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    try:
        action = frames._FrameAction.SKIP
        return frames.set_code_exec_strategy, frames._FrameExecStrategy(action, action)
    except AttributeError:
        return None


def top_dispatch_mode() -> Any:
    """The innermost dispatch mode of this thread, or None."""
    from torch.utils import _python_dispatch

    return _python_dispatch._get_current_dispatch_mode()


def compiler_ignores_mode() -> bool:
    """Whether a dispatch mode can be invisible to torch.compile.

    Not with torch 2.9: there the guards of compiled code see the mode whatever it asks for.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    return hasattr(guards, "set_is_in_mode_without_ignore_compile_internals") and hasattr(
        TorchDispatchMode, "ignore_compile_internals"
    )


def tracing_mode_active() -> Callable[[], bool]:
    """A function: is a compiler tracing on this thread (fake tensors, functionalisation, proxies)?"""
    import torch

    get_mode = getattr(torch._C, "_get_dispatch_mode", None)
    keys = getattr(torch._C, "_TorchDispatchModeKey", None)
    wanted = [getattr(keys, name, None) for name in ("FAKE", "FUNCTIONAL", "PROXY")]
    wanted = [key for key in wanted if key is not None]
    if get_mode is None or not wanted:
        return lambda: False

    def active() -> bool:
        return any(get_mode(key) is not None for key in wanted)

    return active


def initialised_accelerator() -> str | None:
    """The type of the accelerator the program has initialised (``cuda``, ``neuron``), or None.

    Never initialises one: creating a CUDA context here would break a program that forks later.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None:
            return None
        kind = str(accelerator.type)
        module = getattr(torch, kind, None)
        is_initialised = getattr(module, "is_initialized", None)
        # A backend without the question has no lazy start that could be disturbed.
        return kind if is_initialised is None or is_initialised() else None
    except Exception:  # a broken backend must not stop a recording
        return None


def accelerator_name(kind: str) -> str:
    """The device's own name where its module tells one."""
    torch = sys.modules["torch"]
    try:
        return str(getattr(torch, kind).get_device_name())
    except Exception:
        return kind


def accelerator_count() -> int:
    """Number of accelerators of this process; -1 when torch does not tell."""
    torch = sys.modules["torch"]
    try:
        return int(torch.accelerator.device_count())
    except Exception:
        return -1


def storage_and_version(tensor: Any) -> tuple[int, int]:
    """The address of a plain tensor's storage and its version counter (0 where it has none)."""
    try:
        storage = int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        storage = 0
    try:
        return storage, int(tensor._version)
    except RuntimeError:  # made in inference mode
        return storage, 0


def data_address(tensor: Any) -> int:
    """The address of a plain tensor's data; 0 where it has none."""
    try:
        return int(tensor.data_ptr())
    except Exception:
        return 0


def library_class() -> Any:
    """``torch.library.Library``, through which every kernel in Python is registered; None where it is gone."""
    library = getattr(getattr(sys.modules.get("torch"), "library", None), "Library", None)
    return library if callable(getattr(library, "impl", None)) else None


def operator_names() -> list[str]:
    """Every operator that torch knows, overloads as ``aten::add.Tensor``."""
    import torch

    ask = getattr(torch._C, "_dispatch_get_all_op_names", None)
    return list(ask()) if ask is not None else []


def has_kernel(operator: str, dispatch_key: str) -> bool:
    """Whether an operator has a kernel of its own for a dispatch key."""
    import torch

    ask = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    return ask is not None and bool(ask(operator, dispatch_key))


def device_types_of_dispatch_keys() -> dict[str, str]:
    """Dispatch key → the type of device that its kernels run on; "" for kernels that run on any."""
    import torch

    ask = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    return {
        "CompositeImplicitAutograd": "", "CompositeExplicitAutogradNonFunctional": "", "CompositeExplicitAutograd": "",
        "CPU": "cpu", "CUDA": "cuda", "XPU": "xpu", "MPS": "mps", "MTIA": "mtia", "PrivateUse1": ask(),
    }  # fmt: skip


def custom_op_functions(operator: str) -> dict[str, Any]:
    """Device type ("" for any) → the kernel of an operator that ``torch.library.custom_op`` made."""
    definitions = getattr(sys.modules.get("torch._library.custom_ops"), "OPDEFS", {})
    functions = getattr(definitions.get(operator), "_backend_fns", {})
    return {device or "": function for device, function in functions.items()}


def function_inside(function: Any) -> Any:
    """The kernel inside the function that torch's registration puts around it; None for any other function."""
    if getattr(function, "__module__", None) not in ("torch._library.custom_ops", "torch._library.triton"):
        return None
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(function, "__closure__", None) or (), strict=False))
    return cells["fn"].cell_contents if "fn" in cells else None


def sync_places() -> list[tuple[Any, str, str]]:
    """(object, attribute, public name) of every function in which the host waits for the device.

    These lie *under* the public functions. torch.compile recognises `torch.cuda.synchronize`
    and its like by identity and never looks inside, and it knows the methods of streams and
    events by name, so replacing what they call changes no compilation.
    """
    import torch

    from neuron_explorer.neuron import backend

    candidates = [
        (torch._C, "_cuda_synchronize", "torch.cuda.synchronize"),
        (torch._C, "_xpu_synchronize", "torch.xpu.synchronize"),
        (torch._C, "_mps_deviceSynchronize", "torch.mps.synchronize"),
        (torch._C, "_mtia_deviceSynchronize", "torch.mtia.synchronize"),
        (torch._C, "_accelerator_synchronizeDevice", "torch.accelerator.synchronize"),
    ]
    candidates += backend.sync_places()  # not among the functions that torch.compile knows by identity
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        for name in ("Stream", "Event"):
            owner = getattr(module, name, None)
            if owner is not None and "synchronize" in vars(owner):
                candidates.append((owner, "synchronize", f"torch.{kind}.{name}.synchronize"))
    return [(owner, name, public) for owner, name, public in candidates if hasattr(owner, name)]


def optimizer_step_code() -> Any:
    """The code of the function that torch puts around every optimizer's ``step``; None where there is none."""
    try:
        code = _find("torch.optim.optimizer", "Optimizer.profile_hook_step").__code__
    except (ImportError, AttributeError):
        return None
    inner = [c for c in code.co_consts if isinstance(c, type(code)) and c.co_varnames[:1] == ("args",)]
    return inner[0] if len(inner) == 1 else None


def without_torch_function() -> Any:
    """A context in which reading a tensor's fields runs no code of its class."""
    import contextlib

    import torch

    guard = getattr(torch._C, "DisableTorchFunctionSubclass", None)
    return guard() if guard is not None else contextlib.nullcontext()
