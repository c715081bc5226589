"""FLOPs and bytes of an operator call, from the shapes and dtypes that the trace holds.

Matrix products, convolutions and attention count as ``torch.utils.flop_counter`` counts
them; the other models are described in docs/readiness.md. An operator without a model has
no figure: nothing is guessed.

Calls nest, so only some of them count: see ``analysis/work.py``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from neuron_explorer.analysis.costs_data import DATA_MODELS
from neuron_explorer.analysis.costs_elementwise import elementwise_model, list_model
from neuron_explorer.analysis.costs_matrix import MATRIX_MODELS, UNLESS_IN_PARTS, Model
from neuron_explorer.analysis.op_cost import NOTHING, Cost
from neuron_explorer.analysis.op_names import base_name, overload, words
from neuron_explorer.analysis.signature import parse

__all__ = ["Cost", "cost_of", "counts_by_parts", "moves_nothing", "why_not"]

_METADATA: Final = words(
    """view _unsafe_view view_as reshape _reshape_alias as_strided as_strided_ transpose transpose_ t t_ permute movedim
    expand expand_as slice select narrow unsqueeze unsqueeze_ squeeze squeeze_ detach detach_ alias lift lift_fresh
    unbind split split_with_sizes chunk tensor_split diagonal unfold swapaxes real imag view_as_real view_as_complex
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_ resize_as_ set_ set_data
    resolve_conj resolve_neg conj _conj _neg_view is_nonzero is_same_size is_floating_point result_type can_cast
    broadcast_tensors broadcast_to _has_compatible_shallow_copy_type _local_scalar_dense item size stride sym_size
    sym_stride sym_numel sym_storage_offset requires_grad_ retain_grad record_stream is_pinned pin_memory _pin_memory
    _fused_sdp_choice _backward _version output_nr data flatten unflatten ravel positive numpy_T mT mH adjoint
    to type_as contiguous cpu cuda promote_types _shape_as_tensor _assert_async _assert_tensor_metadata
    _nested_tensor_size"""
)
"""Operators that compute nothing and move no contents (where ``reshape`` or ``to`` has to copy, ``copy_`` counts)."""


def moves_nothing(name: str) -> bool:
    """Whether an operator is about metadata or allocation only."""
    # Names without a namespace, and the engine's, are wrappers of autograd around operators.
    return base_name(name) in _METADATA or "::" not in name or name.startswith("autograd::")


def counts_by_parts(name: str) -> bool:
    """Whether an operator is put together from others, which count in its place."""
    return name.startswith("aten::") and base_name(name) in UNLESS_IN_PARTS


@lru_cache(maxsize=4096)
def _model(name: str) -> Model | None:
    if not name.startswith("aten::"):
        return None
    base = base_name(name)
    for table in (MATRIX_MODELS, UNLESS_IN_PARTS):
        if base in table:
            return table[base]
    pointwise = elementwise_model(base, overload(name)) or list_model(base)
    return pointwise or DATA_MODELS.get(base)


def has_model(name: str) -> bool:
    """Whether work can be computed for an operator when its shapes are known."""
    return moves_nothing(name) or _model(name) is not None


def cost_of(name: str, shapes: str | None, dtypes: str | None, arguments: str | None = None) -> Cost | None:
    """The work of one call, or None where there is no model or the shapes do not say enough.

    The texts are those of the trace's columns. For an operator that is put together from
    others this is the work of the whole; the caller decides which of them counts.
    """
    if moves_nothing(name):
        return NOTHING
    model = _model(name)
    if model is None:
        return None
    signature = parse(shapes, dtypes, arguments)
    return None if signature is None else model(signature)


def why_not(name: str, shapes: str | None, dtypes: str | None, arguments: str | None = None) -> str:
    """Why ``cost_of`` has no answer, in words."""
    if _model(name) is None:
        return "no model"
    signature = parse(shapes, dtypes, arguments)
    if signature is None:
        return "shapes not recorded"
    return "the trace keeps only the head of a long list" if signature.cut else "arguments that the model does not know"
