"""PyTorch's own samples of its operators, on the emulated device and on the CPU.

Compared are results (float32, bfloat16, int64, bool) and gradients (float32). Prints one line for
each: ``OP ["what", "operator", "outcome", "text", seconds]`` with the outcome ``same``,
``differs``, ``raises`` or ``nothing`` (no sample could be compared).
"""

from __future__ import annotations

import json
import re
import sys
import time
import types
import unittest
import warnings

SAMPLES = {"float32": 6, "gradient": 4, "bfloat16": 2, "int64": 2, "bool": 2}  # compared of each operator
LOOKED_AT = 24  # samples at most: some are too large, some the CPU refuses
ELEMENTS = 20_000  # larger samples are left out
SECONDS = 1.5  # no further sample of an operator after this, but the first

# Their results hold whatever the memory held: compared by shape and dtype.
UNINITIALISED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})

# Tensors that torch wants on the CPU whatever the device: the sweep leaves all but the first there.
HOST_ARGUMENTS = frozenset({"tensor_split"})

# How much wider than usual a result may be off: the CPU computes attention in another way.
WIDER = {"nn.functional.scaled_dot_product_attention": 10.0}


def opinfos():
    """The operators that torch's own tests know."""
    if "expecttest" not in sys.modules:
        try:
            import expecttest  # noqa: F401
        except ImportError:
            # Torch's module derives its test case from this package's and uses nothing of it here.
            stand_in = types.ModuleType("expecttest")
            stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def name_of(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def copy_of(tensor):
    """The tensor on the device, with its strides, its offset and the whole storage behind it."""
    import torch

    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.to("neuron")
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    everything = torch.as_strided(tensor, (count,), (1,), 0).to("neuron")
    return torch.as_strided(everything, tensor.size(), tensor.stride(), tensor.storage_offset())


def to_host(value):
    import torch

    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def to_device(value):
    import torch

    if isinstance(value, torch.Tensor):
        moved = copy_of(value.detach())
        return moved.requires_grad_() if value.requires_grad else moved
    # An operator's own argument for the device; some samples name it as text.
    is_place = isinstance(value, torch.device) or value == "cpu"
    return torch.device("neuron") if is_place else value


def on_the_device(op, arguments):
    """The arguments there, or None when nothing in them is of the device."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    if op.name in HOST_ARGUMENTS:
        return to_device(arguments[0]), *arguments[1:]
    moved = tree_map(to_device, arguments)
    places = (leaf.device if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(moved))
    return moved if any(isinstance(place, torch.device) and place.type == "neuron" for place in places) else None


def small_samples(op, dtype, requires_grad: bool):
    """The samples of an operator, without the large ones, for at most a while."""
    import torch
    from torch.utils._pytree import tree_leaves

    begun = time.perf_counter()
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=requires_grad)):
        arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        if number == LOOKED_AT or (number > 0 and time.perf_counter() - begun > SECONDS):
            return
        if all(leaf.numel() <= ELEMENTS for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)):
            yield sample, arguments


def difference(found, expected, what: str, wide: float = 1.0) -> str:
    import torch

    try:
        torch.testing.assert_close(
            found, expected, rtol=1e-4 * wide, atol=1e-5 * wide, equal_nan=True, check_stride=False
        )
    except Exception as error:
        return f"{what}: {type(error).__name__}: {error}"
    return ""


def compare(op, dtype, samples: int) -> tuple[str, str]:
    """The results of an operator."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    compared, problem = 0, ""
    for _, arguments in small_samples(op, dtype, requires_grad=False):
        moved = on_the_device(op, arguments)  # first: operators may write into their inputs
        if moved is None:
            continue
        try:
            torch.manual_seed(0)
            expected = op(arguments[0], *arguments[1], **arguments[2])
        except Exception as error:  # a sample that the CPU refuses says nothing
            problem = f"CPU: {type(error).__name__}: {error}"
            continue
        try:
            torch.manual_seed(0)
            found = op(moved[0], *moved[1], **moved[2])
            placed = [leaf.device.type for leaf in tree_leaves(found) if torch.is_tensor(leaf)]
            found = tree_map(to_host, found)
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        if any(place != "neuron" for place in placed):
            return "differs", f"result on {placed}"
        if op.name in UNINITIALISED:
            found, expected = torch.zeros_like(found), torch.zeros_like(expected)
        wide = WIDER.get(op.name, 1.0) * (100 if dtype is torch.bfloat16 else 1)
        wrong = difference(found, tree_map(to_host, expected), "result", wide)
        if wrong:
            return "differs", wrong
        compared += 1
        if compared == samples:
            break
    return ("same", "") if compared else ("nothing", problem)


def gradients(op, sample, arguments, device: str):
    """Of the sample's inputs that want one, given the same numbers for each output; on the host."""
    import torch
    from torch.utils._pytree import tree_leaves

    wanted = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    torch.manual_seed(0)
    result = op(arguments[0], *arguments[1], **arguments[2])
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not wanted or not outputs:
        return None
    numbers = torch.Generator().manual_seed(1)
    given = [torch.randn(out.shape, dtype=out.dtype, generator=numbers).to(device) for out in outputs]
    found = torch.autograd.grad(outputs, wanted, given, allow_unused=True)
    places = {grad.device.type for grad in found if grad is not None} - {device}
    if places:
        raise AssertionError(f"gradients on {sorted(places)}")
    return [to_host(grad) for grad in found]


def compare_gradients(op, dtype, samples: int) -> tuple[str, str]:
    compared, problem = 0, ""
    for sample, arguments in small_samples(op, dtype, requires_grad=True):
        moved = on_the_device(op, arguments)
        if moved is None:
            continue
        try:
            expected = gradients(op, sample, arguments, "cpu")
        except Exception as error:
            problem = f"CPU: {type(error).__name__}: {error}"
            continue
        if expected is None:
            continue
        try:
            found = gradients(op, sample, moved, "neuron")
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        wrong = "no gradient" if found is None else difference(found, expected, "gradient", WIDER.get(op.name, 1.0))
        if wrong:
            return "differs", wrong
        compared += 1
        if compared == samples:
            break
    return ("same", "") if compared else ("nothing", problem)


def asked(op):
    """What is compared for an operator: (its name, dtype, how)."""
    import torch

    for what in SAMPLES:
        dtype = torch.float32 if what == "gradient" else getattr(torch, what)
        if not op.supports_dtype(dtype, "cpu"):
            continue
        if what != "gradient":
            yield what, dtype, compare
        elif op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
            yield what, dtype, compare_gradients


def main() -> None:
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    try:
        known = opinfos()
    except ImportError as error:
        print("ABSENT " + json.dumps(str(error)), flush=True)
        return
    from neuron_explorer.neuron import emulator

    emulator.enable()
    wanted = re.compile(sys.argv[1] if len(sys.argv) > 1 else "")
    for op in known:
        if not wanted.search(name_of(op)):
            continue
        for what, dtype, ask in asked(op):
            begun = time.perf_counter()
            print("START " + json.dumps([what, name_of(op)]), flush=True)
            try:
                outcome, text = ask(op, dtype, SAMPLES[what])
            except Exception as error:  # the samples themselves
                outcome, text = "nothing", f"samples: {type(error).__name__}: {error}"
            seconds = round(time.perf_counter() - begun, 2)
            print("OP " + json.dumps([what, name_of(op), outcome, text[:400], seconds]), flush=True)


if __name__ == "__main__":
    main()
