"""PyTorch's own samples of its operators, on the emulated device and on the CPU: float32, forward.

Prints one line for each operator: ``OP ["name", "outcome", "text"]`` with the outcome
``same``, ``differs``, ``raises`` or ``nothing`` (no sample could be compared).
"""

from __future__ import annotations

import json
import re
import sys
import time
import types
import unittest
import warnings

SAMPLES = 3  # of each operator
ELEMENTS = 20_000  # larger samples are left out
SECONDS = 1.5  # no further sample of an operator after this

# Their results hold whatever the memory held: compared by shape and dtype.
UNINITIALISED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})


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


def compare(op) -> tuple[str, str]:
    import torch
    from torch.utils._pytree import tree_map

    def to_device(value):
        if isinstance(value, torch.Tensor):
            return copy_of(value.detach())
        # An operator's own argument for the device; some samples name it as text.
        is_place = isinstance(value, torch.device) or value == "cpu"
        return torch.device("neuron") if is_place else value

    def to_host(value):
        return value.detach().cpu() if isinstance(value, torch.Tensor) else value

    compared, problem = 0, ""
    begun = time.perf_counter()
    for number, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=False)):
        if compared == SAMPLES or number == 4 * SAMPLES or time.perf_counter() - begun > SECONDS:
            break
        tensors = [v for v in (sample.input, *sample.args, *sample.kwargs.values()) if isinstance(v, torch.Tensor)]
        if any(tensor.numel() > ELEMENTS for tensor in tensors):
            continue
        # Inputs first: operators may write into theirs.
        moved = tree_map(to_device, (sample.input, tuple(sample.args), dict(sample.kwargs)))
        try:
            torch.manual_seed(0)
            expected = op(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:  # a sample that the CPU refuses says nothing
            problem = f"CPU: {type(error).__name__}: {error}"
            continue
        try:
            torch.manual_seed(0)
            found = op(moved[0], *moved[1], **moved[2])
            placed = [leaf.device.type for leaf in torch.utils._pytree.tree_leaves(found) if torch.is_tensor(leaf)]
            found = tree_map(to_host, found)
        except Exception as error:
            return "raises", f"{type(error).__name__}: {error}"
        if any(place != "neuron" for place in placed):
            return "differs", f"result on {placed}"
        if op.name in UNINITIALISED:
            found, expected = torch.zeros_like(found), torch.zeros_like(expected)
        try:
            torch.testing.assert_close(
                found, tree_map(to_host, expected), rtol=1e-4, atol=1e-5, equal_nan=True, check_stride=False
            )
        except Exception as error:
            return "differs", f"{type(error).__name__}: {error}"
        compared += 1
    return ("same", "") if compared else ("nothing", problem)


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
        if not op.supports_dtype(torch.float32, "cpu") or not wanted.search(name_of(op)):
            continue
        begun = time.perf_counter()
        print("START " + json.dumps(name_of(op)), flush=True)
        try:
            outcome, text = compare(op)
        except Exception as error:  # the samples themselves
            outcome, text = "nothing", f"samples: {type(error).__name__}: {error}"
        seconds = round(time.perf_counter() - begun, 2)
        print("OP " + json.dumps([name_of(op), outcome, text[:400], seconds]), flush=True)


if __name__ == "__main__":
    main()
