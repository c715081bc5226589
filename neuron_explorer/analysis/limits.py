"""What a program uses that a Neuron device does not have, or has in another way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from neuron_explorer.analysis.calls import Calls, Group
from neuron_explorer.analysis.line_counts import LineCount, tally, top_lines
from neuron_explorer.analysis.op_names import base_name, overload, words
from neuron_explorer.analysis.signature import Signature, parse

_SPARSE: Final = re.compile(r".*sparse.*|_?(values|indices|nnz|coalesce|coalesced)_?|c?(crow|ccol|col|row)_indices.*")
_DYNAMIC: Final = words(
    "nonzero nonzero_numpy argwhere masked_select _unique _unique2 unique_dim unique_consecutive "
    "unique_dim_consecutive bincount"
)
_CONVOLUTIONS: Final = words("convolution _convolution convolution_overrideable conv1d conv2d conv3d")
_MOST_OPERATORS: Final = 4


@dataclass(frozen=True)
class Limit:
    """Something that the device lacks or changes, and where it is used.

    ``level``: ``problem`` (refused, or slow), ``cost`` (works in another way) or ``note``.
    ``calls``: operator calls of the whole run that use it. ``chips``: the chips it is about,
    empty for all of them.
    """

    key: str
    level: str
    title: str
    text: str
    calls: int
    operators: tuple[str, ...]
    lines: tuple[LineCount, ...]
    chips: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Rule:
    key: str
    level: str
    title: str
    text: str
    holds: Callable[[Group, Signature | None], bool]
    chips: tuple[str, ...] = ()


def limits(calls: Calls, here: np.ndarray) -> tuple[Limit, ...]:
    """The limits that the program meets; ``here``: events that belong on the device."""
    signatures = [parse(g.shapes, g.dtypes, g.arguments) for g in calls.groups]
    operator = here & calls.where([g.kind in ("op", "copy", "sync") and "::" in g.name for g in calls.groups])
    found = []
    for rule in _RULES:
        hits = [rule.holds(g, s) for g, s in zip(calls.groups, signatures, strict=True)]
        meeting = operator & calls.where(hits)
        meeting &= ~calls.covered(meeting)
        if not meeting.any():
            continue
        counts = tally(calls, meeting)
        groups = counts.groups()
        names: dict[str, int] = {}
        for position in groups:
            name = calls.groups[position].name
            names[name] = names.get(name, 0) + int(counts.calls[position])
        ordered = sorted(names, key=lambda n: (-names[n], n))
        found.append(
            Limit(
                rule.key, rule.level, rule.title, rule.text, int(counts.calls.sum()),
                tuple(ordered[:_MOST_OPERATORS]), top_lines(calls, counts, groups), rule.chips,
            )  # fmt: skip
        )
    return tuple(found)


def _uses(*prefixes: str, with_dimensions: bool = False) -> Callable[[Group, Signature | None], bool]:
    def holds(group: Group, signature: Signature | None) -> bool:
        if signature is None:
            return False
        return any(
            t.dtype.startswith(prefixes) and (bool(t.shape) or not with_dimensions) for t in signature.tensors
        )

    return holds


def _sparse(group: Group, signature: Signature | None) -> bool:
    if _SPARSE.fullmatch(base_name(group.name)):
        return True
    return any(f'"sparse_{form}"' in (group.arguments or "") for form in ("coo", "csr", "csc", "bsr", "bsc"))


def _dynamic(group: Group, signature: Signature | None) -> bool:
    base = base_name(group.name)
    if base in _DYNAMIC or (base == "where" and overload(group.name) == "" and group.name.startswith("aten::")):
        return True
    if group.name == "aten::repeat_interleave.Tensor":
        return True
    if group.name in ("aten::index.Tensor", "aten::index_put_", "aten::_index_put_impl_") and signature is not None:
        return any(t.dtype in ("bool", "uint8") for t in signature.tensors[1:])
    return False


def _channels_last(group: Group, signature: Signature | None) -> bool:
    if base_name(group.name) not in _CONVOLUTIONS or signature is None:
        return False
    x = signature.tensor(0)
    if x is None or len(x.shape) < 4 or x.shape[1] < 2 or min(x.shape[2:]) < 2:
        return False
    try:
        strides = json.loads(group.strides or "[]")[0]
    except (ValueError, IndexError, TypeError, KeyError, RecursionError):
        return False
    return isinstance(strides, list) and len(strides) == len(x.shape) and strides[1] == 1


def _named(*bases: str) -> Callable[[Group, Signature | None], bool]:
    return lambda group, signature: base_name(group.name) in bases


_RULES: Final = (
    _Rule("sparse", "problem", "Sparse tensors",
          "Neuron tensors are dense: no public path for sparse layouts is known.", _sparse),
    _Rule("dynamic", "problem", "Shapes that depend on data",
          "The host has to wait for the size, and each new size compiles anew; a compiled graph breaks here. "
          "Use a mask, torch.where, or a fixed size.", _dynamic),
    _Rule("complex", "problem", "Complex numbers",
          "Taken apart into real ones by recent releases, refused by older ones.", _uses("complex")),
    _Rule("quantized", "problem", "Quantised tensors", "Quantised dtypes of torch have no kernels on the device.",
          _uses("qint", "quint")),
    _Rule("float64", "cost", "64-bit floats are narrowed",
          "float64 becomes float32 on the device: results differ in the last digits.",
          _uses("float64", with_dimensions=True)),
    _Rule("fp8_rate", "cost", "8-bit floats without a rate of their own",
          "This chip has cFP8 only, at the rate of bfloat16.", _uses("float8"), ("trn1", "inf2")),
    _Rule("fp8_mx", "cost", "8-bit floats only as MXFP8", "This chip reaches its 8-bit rate through MX kernels only.",
          _uses("float8"), ("trn3",)),
    _Rule("scaled_mm", "problem", "Scaled 8-bit products", "torch's _scaled_mm has no kernel on any chip.",
          _named("_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm")),
    _Rule("channels_last", "problem", "Channels-last convolutions",
          "Convolutions of channels-last tensors are refused; keep the default layout.", _channels_last),
    _Rule("point_to_point", "problem", "Sends and receives",
          "send and recv are missing in recent betas.",
          lambda group, s: group.name.startswith(("c10d::send", "c10d::recv"))),
    _Rule("all_to_all", "cost", "All-to-all",
          "Only with 4, 8, 16 or 32 ranks and more, inside a node; empty tensors are refused.",
          lambda group, s: group.name.startswith("c10d::alltoall")),
    _Rule("int64", "note", "64-bit integers are narrowed",
          "int64 becomes int32 on the device: indices are fine, values beyond 2,147,483,647 are not.",
          _uses("int64", "uint64", with_dimensions=True)),
)  # fmt: skip
