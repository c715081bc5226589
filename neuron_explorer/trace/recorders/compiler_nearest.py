"""Which version of a function nearly fitted.

Dynamo names one failed guard for each version, which says little about how far that version was:
the first one ever compiled may differ in everything. So the guards that can be looked up without
running code of the program's are counted, and the version with the fewest failures is nearest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from neuron_explorer.trace.compiles import Reason
from neuron_explorer.trace.recompile_reasons import closest
from neuron_explorer.trace.recorders.compiler_values import Unknown, value_of

__all__ = ["mismatches", "nearest"]

_MOST_GUARDS = 400
_EQUAL = re.compile(r"(?P<left>[A-Za-z_][^=<>!]*?) == (?P<right>.+)", re.DOTALL)
_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), (?:Tensor|Parameter), .*?, (?P<dtype>torch\.\w+), device=.*?, "
    r"requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\]",
    re.DOTALL,
)
_PLAIN = (bool, int, float, str, type(None))


def nearest(
    reasons: Sequence[Reason],
    guards: Mapping[str, Sequence[str]],
    local: Mapping[str, Any],
    outside: Mapping[str, Any],
) -> int:
    """Index of the reason of the nearest version. ``guards``: compile id of a version → its guards."""
    if len(reasons) < 2:
        return 0
    counts = [
        mismatches(guards[reason.entry], local, outside) if reason.entry in guards else _MOST_GUARDS
        for reason in reasons
    ]
    best = [index for index, count in enumerate(counts) if count == min(counts)]
    return best[max(closest([reasons[index] for index in best]), 0)]


def mismatches(guards: Sequence[str], local: Mapping[str, Any], outside: Mapping[str, Any]) -> int:
    """How many of these guards fail now, of those that can be looked up."""
    count = 0
    for guard in guards[:_MOST_GUARDS]:
        try:
            tensor = _TENSOR.match(guard)
            count += _tensor(tensor, local, outside) if tensor else _value(guard, local, outside)
        except (Unknown, ValueError, SyntaxError, RecursionError):
            continue
    return count


def _value(guard: str, local: Mapping[str, Any], outside: Mapping[str, Any]) -> int:
    match = _EQUAL.fullmatch(guard)
    if match is None or len(guard) > 300:
        return 0
    expected = ast.literal_eval(match["right"])
    found = value_of(match["left"], local, outside)
    if type(expected) not in _PLAIN or type(found) not in _PLAIN:
        return 0
    return int(not (type(found) is type(expected) and found == expected))


def _tensor(match: re.Match[str], local: Mapping[str, Any], outside: Mapping[str, Any]) -> int:
    source = match["source"]
    failed = int(str(value_of(f"{source}.dtype", local, outside)) != match["dtype"])
    failed += str(value_of(f"{source}.requires_grad", local, outside)) != match["grad"]
    expected = [part.strip() for part in match["size"].split(",")] if match["size"].strip() else []
    sizes = value_of(f"{source}.shape", local, outside)
    if len(sizes) != len(expected):
        return failed + 1
    return failed + sum(want not in ("None", str(size)) for want, size in zip(expected, sizes, strict=True))
