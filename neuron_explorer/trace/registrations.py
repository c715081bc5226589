"""What a recording knows of the operators that a program registers through ``torch.library``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ENTRY: Final = "custom_operators"
"""Name of the entry, in ``session.json`` with kernels, in a trace's metadata with device types."""

MOST_OPERATORS: Final = 2000
_LONGEST: Final = 4096
_MOST_LINES: Final = 60
_NAME: Final = re.compile(r"([A-Za-z_]\w*)::[A-Za-z_]\w*(?:\.\w+)?$", re.ASCII)
_OF_TORCH: Final = frozenset(
    (
        "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized", "_test", "aten",
        "autograd", "c10d", "c10d_functional", "debug_mode_ops", "debugprims", "export", "higher_order", "inductor",
        "inductor_prims", "mkl", "mkldnn", "mkldnn_prepacked", "neuron", "nvprims", "onednn", "prim", "prims",
        "profiler", "quantization", "quantized", "quantized_decomposed", "rngprims", "sparse", "static_runtime",
        "symm_mem", "torch", "torchao", "triton_ops_to_cache",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """A Python function: its qualified name, its file as the code object names it, the line of its ``def``."""

    function: str
    file: str
    line: int
    first: int  # of the code object: the line of its first decorator


def is_custom(name: str) -> bool:
    """Whether an operator's name has the namespace of somebody else than torch."""
    found = _NAME.match(name)
    return found is not None and found[1] not in _OF_TORCH


def registered(session: Mapping[str, Any]) -> dict[str, dict[str, Kernel | None]]:
    """Operator → device type ("" for any device) → kernel, None for one that is no Python function.

    ``session.json`` may hold anything; what does not fit is left out.
    """
    entry = session.get(ENTRY)
    found: dict[str, dict[str, Kernel | None]] = {}
    for name, kernels in list(entry.items())[:MOST_OPERATORS] if isinstance(entry, dict) else ():
        if is_custom(name) and isinstance(kernels, dict):
            devices = [(d, k) for d, k in list(kernels.items())[:32] if len(d) <= 64]
            found[name[:_LONGEST]] = {d: _kernel(k) for d, k in devices}
    return found


def _kernel(entry: Any) -> Kernel | None:
    if not isinstance(entry, dict):
        return None
    function, file, line, first = (entry.get(n) for n in ("function", "file", "line", "first"))
    if not (isinstance(function, str) and isinstance(file, str) and file):
        return None
    numbers = [n if type(n) is int and 0 < n < 1 << 31 else -1 for n in (line, first)]
    return Kernel(function[:_LONGEST], file[:_LONGEST], *numbers)


def definition_line(lines: Sequence[str], first: int, function: str) -> int:
    """The line of the ``def`` of a code object that begins at line ``first``, decorators included."""
    name = re.escape(function.rpartition(".")[2])
    begins = re.compile(rf"\s*(?:async\s+)?def\s+{name}\b")
    for number in range(first, min(first + _MOST_LINES, len(lines) + 1)):
        if number > 0 and begins.match(lines[number - 1]):
            return number
    return first
