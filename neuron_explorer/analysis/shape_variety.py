"""Distinct calls of each line: every new one is an artifact to compile.

In eager mode the device compiles each operator once for each set of shapes, dtypes and
integer arguments, and finds it in the cache afterwards. A line that still brings new ones
after the first step keeps compiling.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from neuron_explorer.analysis.calls import Calls, Group
from neuron_explorer.analysis.flops import moves_nothing
from neuron_explorer.analysis.op_names import base_name
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.signature import Signature, Tensor, TensorList, parse

MOST_ROWS: Final = 200
_MOST_VALUES: Final = 4


@dataclass(frozen=True)
class LineVariety:
    """An operator on a line and its distinct calls in the whole run.

    ``new``: artifacts that were first needed here. ``late``: those of them first needed after
    the first step, -1 where the trace has no steps. ``last_step``: the last step that brought a
    new one, -1 for none. ``varies``: which sizes differ.
    """

    file: str
    line: int
    function: str
    name: str
    calls: int
    signatures: int
    new: int
    late: int
    last_step: int
    varies: str


@dataclass(frozen=True)
class ShapeVariety:
    """All lines that need more than one artifact of an operator, and the sums.

    ``artifacts``: distinct calls of operators with a native kernel; ``late`` as in a line;
    ``compiles_seen``: compilations in the trace, -1 where it could not see them.
    """

    lines: tuple[LineVariety, ...]
    total_lines: int
    artifacts: int
    late: int
    first_step: int
    compiles_seen: int


def shape_variety(calls: Calls, native: np.ndarray, compiles_seen: int = -1) -> ShapeVariety:
    """The variety among the calls that run natively."""
    work = native & calls.where([_compiles(g.name) for g in calls.groups])
    counts = np.bincount(calls.group[work], minlength=len(calls.groups))
    first = np.full(len(calls.groups), np.iinfo(np.int64).max)
    np.minimum.at(first, calls.group[work], calls.start[work])
    steps = np.full(len(calls.groups), np.iinfo(np.int64).max)
    np.minimum.at(steps, calls.group[work], calls.step[work])
    in_steps = calls.step[calls.step >= 0]
    first_step = int(in_steps.min()) if len(in_steps) else -1

    owner: dict[tuple[str, str], int] = {}
    lines: dict[tuple[str, int, str, str], dict[str, list[int]]] = {}
    for position in np.flatnonzero(counts).tolist():
        group = calls.groups[position]
        key = _artifact(group)
        here = (group.file, group.line, group.function, group.name)
        lines.setdefault(here, {}).setdefault(key, []).append(position)
        known = owner.get((group.name, key))
        if known is None or first[position] < first[known]:
            owner[group.name, key] = position
    # Groups also differ by phase and float arguments: an artifact is as old as its oldest call.
    born = {key: int(steps[p]) for key, p in owner.items()}
    late_keys = {key for key, step in born.items() if first_step >= 0 and step > first_step}
    rows = []
    for (file, line, function, name), keys in lines.items():
        if len(keys) < 2:
            continue
        groups = [p for members in keys.values() for p in members]
        mine = [k for k, members in keys.items() if owner[name, k] in members]
        late = sum((name, k) in late_keys for k in mine) if first_step >= 0 else -1
        varies = _varies([calls.groups[members[0]] for members in keys.values()])
        last = max((born[name, k] for k in mine), default=-1)
        calls_here = int(sum(counts[p] for p in groups))
        rows.append(LineVariety(file, line, function, name, calls_here, len(keys), len(mine), late, last, varies))
    rows.sort(key=lambda r: (-r.late, -r.signatures, -r.new, r.file, r.line, r.name))
    return ShapeVariety(
        tuple(rows[:MOST_ROWS]), len(rows), len(owner), len(late_keys) if first_step >= 0 else -1, first_step,
        compiles_seen,
    )  # fmt: skip


def _compiles(name: str) -> bool:
    """Views and allocations need no artifact, copies are the work of DMA engines."""
    return not moves_nothing(name) and base_name(name) not in ("copy_", "_copy_from", "_to_copy", "clone")


def _artifact(group: Group) -> str:
    """What tells artifacts of an operator apart: all but the values of real numbers."""
    try:
        values = json.loads(group.arguments or "[]")
    except (ValueError, RecursionError):
        values = []
    whole = json.dumps(_without_reals(values)) if isinstance(values, list) else ""
    return "\x1f".join((group.shapes or "", group.dtypes or "", whole))


def _without_reals(value: Any) -> Any:
    """The recorder writes ``"varies"`` for a real number that took many values."""
    if value == "varies":
        return "real"
    if isinstance(value, list):
        return [_without_reals(v) for v in value[:64]]
    return "real" if isinstance(value, float) else value if isinstance(value, (int, bool, str)) else None


def _varies(groups: list[Group]) -> str:
    """The arguments with the sizes that differ: ``32×{9, 10}×64``."""
    signatures = [parse(g.shapes, g.dtypes, g.arguments) for g in groups]
    known = [s for s in signatures if s is not None]
    if len(known) < 2:
        return "–"
    parts: list[str] = []
    for position in range(min(len(s.arguments) for s in known)):
        text = _argument(known, position)
        if text and text not in parts:
            parts.append(text)
    if parts:
        return plain(", ".join(parts), 160)
    return "dtypes" if len({g.dtypes for g in groups}) > 1 else "arguments"


def _argument(signatures: list[Signature], position: int) -> str:
    values = [s.arguments[position] for s in signatures]
    if all(isinstance(v, Tensor) for v in values):
        shapes = {v.shape for v in values}
        if len(shapes) < 2:
            return ""
        if len({len(shape) for shape in shapes}) == 1:
            return "×".join(_sizes(sorted({shape[d] for shape in shapes})) for d in range(len(next(iter(shapes)))))
    listed = {v if isinstance(v, TensorList) else (v,) for v in values if isinstance(v, (Tensor, TensorList))}
    if len(listed) < 2:
        return ""
    texts: list[str] = []
    for value in values:
        text = _shapes(value)
        if text and text not in texts:
            texts.append(text)
    return _values(texts)


def _shapes(value: Any) -> str:
    if isinstance(value, Tensor):
        return "×".join(map(str, value.shape)) or "()"
    if isinstance(value, TensorList):
        shown = [_shapes(t) for t in value.tensors[:2]]
        more = len(value.tensors) + value.cut - len(shown)
        return "[" + ", ".join(shown) + (f", +{more}]" if more > 0 else "]")
    return ""


def _sizes(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else _values([str(v) for v in values])


def _values(values: list[str]) -> str:
    if len(values) > _MOST_VALUES:
        return f"{{{values[0]}, {values[1]}, …, {values[-1]}}}"
    return "{" + ", ".join(values) + "}"
