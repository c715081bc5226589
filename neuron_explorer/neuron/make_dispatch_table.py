"""Writes ``dispatch.txt`` from the torch that is installed:

    python -m neuron_explorer.neuron.make_dispatch_table > neuron_explorer/neuron/dispatch.txt
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import torch
import torchgen

_COMPOSITE = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
_DELEGATING = "CompositeExplicitAutogradNonFunctional"


def entries() -> Iterator[tuple[str, str]]:
    """Operator and how it reaches a new device: ``composite``, or the operator it is handed to."""
    delegates = dict(_structured())
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::"):
            continue
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        try:
            composite = any(has(name, key) for key in _COMPOSITE)
            delegating = has(name, _DELEGATING)
        except RuntimeError:  # an operator of TorchScript, not of the dispatcher
            continue
        short = name.removeprefix("aten::")
        if short in delegates:
            yield short, delegates[short]
        elif composite or delegating:
            yield short, "composite"


def _structured() -> Iterator[tuple[str, str]]:
    """``add.Tensor`` is ``add.out`` on a device that has only the latter (structured kernels)."""
    text = (Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml").read_text(encoding="utf-8")
    for block in text.split("\n- func: ")[1:]:
        found = re.search(r"^  structured_delegate: (\S+)", block, re.MULTILINE)
        if found:
            yield block.split("(", 1)[0], found.group(1)


if __name__ == "__main__":
    print(f"""# How an ATen operator without a kernel of the device's own reaches the device:
# "composite": put together from other operators, which are dispatched in its place;
# another operator's name: handed to that one (structured kernels). Operators that are not
# listed need a kernel, or run on the CPU. From the dispatcher and native_functions.yaml of
# torch {torch.__version__.split("+")[0]}, written by make_dispatch_table.py.""")
    for line in sorted({f"{name} {how}" for name, how in entries()}):
        print(line)
