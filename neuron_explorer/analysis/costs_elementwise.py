"""Work of elementwise operators, of their forms over lists, and of fused optimizers.

One FLOP for each step of an operator's definition; exp, log, tanh, sqrt and the like count
as one. Comparisons and integer work count by their bytes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from neuron_explorer.analysis.op_cost import ELEMENTWISE, Cost, Moved, broadcast, moved, promoted
from neuron_explorer.analysis.signature import Signature, Tensor, TensorList

Model = Callable[[Signature], "Cost | None"]

_ONE: Final = (
    "add sub rsub mul div true_divide divide multiply subtract floor_divide remainder fmod pow neg abs sign sgn "
    "reciprocal sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh "
    "tanh erf erfc erfinv floor ceil round trunc frac relu clamp clamp_min clamp_max maximum minimum fmax fmin square "
    "positive threshold hardtanh relu6 lgamma digamma nan_to_num deg2rad rad2deg hypot xlogy"
)
_MORE: Final[dict[str, int]] = {
    "rsqrt": 2, "sigmoid": 3, "silu": 4, "gelu": 5, "mish": 5, "softplus": 3, "elu": 3, "leaky_relu": 2, "hardswish": 4,
    "hardsigmoid": 3, "logaddexp": 4, "addcmul": 3, "addcdiv": 3, "lerp": 3, "log_sigmoid_forward": 4,
    "threshold_backward": 1, "sigmoid_backward": 3, "tanh_backward": 3, "silu_backward": 7, "gelu_backward": 11,
    "softplus_backward": 4, "elu_backward": 3, "leaky_relu_backward": 2, "hardtanh_backward": 1,
    "hardswish_backward": 4, "hardsigmoid_backward": 2, "native_dropout_backward": 2, "mse_loss": 2,
    "mse_loss_backward": 3, "smooth_l1_loss": 4, "huber_loss": 4, "binary_cross_entropy": 6, "l1_loss": 2,
}  # fmt: skip
_COMPARE: Final = (
    "eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite isposinf isneginf signbit"
)
_MOVE: Final = (
    "where masked_fill tril triu bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift "
    "__and__ __or__ __xor__ __lshift__ __rshift__ polar complex conj_physical"
)
_REDUCED: Final = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "l1_loss")
"""Losses whose result is one number unless their `reduction` argument is 0."""


def _elementwise(per_element: int, *, result: str = "", in_place: bool = False, out: bool = False) -> Model:
    def model(s: Signature) -> Cost | None:
        tensors = [a for a in s.arguments if isinstance(a, Tensor)]
        inputs = tensors[:-1] if out and len(tensors) > 1 else tensors
        if not inputs or s.cut:
            return None
        if in_place:
            target = inputs[0]
            shape: tuple[int, ...] | None = target.shape
            dtype = target.dtype
        else:
            shape, dtype = broadcast(inputs), result or promoted(inputs)
        if shape is None:
            return None
        written = Tensor(shape, dtype)
        work = promoted(inputs)
        floating = work.startswith(("float", "bfloat", "complex"))
        flops = per_element * written.elements if floating else 0
        return Cost(flops, ELEMENTWISE, work, moved(*inputs), moved(written))

    return model


def _loss(per_element: int) -> Model:
    whole = _elementwise(per_element)

    def model(s: Signature) -> Cost | None:
        cost = whole(s)
        if cost is None or s.value(2, 1) == 0:
            return cost
        return Cost(cost.flops, cost.unit, cost.dtype, cost.read, ((cost.dtype, 1),))

    return model


def elementwise_model(base: str, overload: str) -> Model | None:
    """The model of an operator by its name without overload, and the overload; None for another operator."""
    if base in _REDUCED:
        return _loss(_MORE[base])
    in_place = base.endswith("_") and not base.endswith("__")
    out = overload == "out" or overload.endswith("_out") or overload == "grad_input"
    plain = base[:-1] if in_place else base
    if base in ("max", "min"):
        return _elementwise(1) if overload == "other" else None
    per_element = _PER_ELEMENT.get(plain)
    if per_element is None:
        return None
    result = "bool" if plain in _COMPARED else ""
    if plain == "where":
        return _where if overload in ("self", "ScalarSelf", "ScalarOther", "self_out") else None
    return _elementwise(per_element, result=result, in_place=in_place, out=out)


def _where(s: Signature) -> Cost | None:
    tensors = [a for a in s.arguments if isinstance(a, Tensor)]
    shape = broadcast(tensors)
    if shape is None or not tensors:
        return None
    dtype = promoted(tensors[1:] or tensors)
    return Cost(0, ELEMENTWISE, dtype, moved(*tensors), moved(Tensor(shape, dtype)))


_COMPARED: Final = frozenset(_COMPARE.split())
_PER_ELEMENT: Final[dict[str, int]] = {
    **dict.fromkeys(_ONE.split(), 1),
    **_MORE,
    **dict.fromkeys(_COMPARE.split(), 0),
    **dict.fromkeys(_MOVE.split(), 0),
}

# ---------------------------------------------------------------- lists of tensors

_FUSED: Final[dict[str, tuple[int, int, int]]] = {
    # FLOPs an element, lists read, lists written
    "_fused_adam_": (12, 4, 3),
    "_fused_adamw_": (13, 4, 3),
    "_fused_sgd_": (4, 3, 2),
    "_fused_adagrad_": (6, 3, 2),
}
_FOREACH_PREFIX: Final = "_foreach_"


def list_model(base: str) -> Model | None:
    """The model of an operator over lists of tensors (``_foreach_…``, ``_fused_adamw_``); None for another.

    None is also the answer of the model itself where the trace kept only the head of a list.
    """
    if base in _FUSED:
        return _fused(*_FUSED[base])
    if not base.startswith(_FOREACH_PREFIX):
        return None
    plain = base.removeprefix(_FOREACH_PREFIX)
    in_place = plain.endswith("_")
    plain = plain.rstrip("_")
    if plain == "norm":
        return _foreach(2, reduced=True, in_place=False)
    if plain in ("copy", "zero"):
        return _foreach(0, in_place=True, target_read=False)
    per_element = _PER_ELEMENT.get(plain)
    return None if per_element is None else _foreach(per_element, in_place=in_place)


def _foreach(per_element: int, *, in_place: bool, reduced: bool = False, target_read: bool = True) -> Model:
    def model(s: Signature) -> Cost | None:
        first = s.arguments[0] if s.arguments else None
        if not isinstance(first, TensorList) or s.cut or not first.tensors:
            return None
        sources = s.arguments if target_read else s.arguments[1:]
        dtype = first.tensors[0].dtype
        written = ((dtype, len(first.tensors) + first.cut),) if reduced else first.moved
        return Cost(per_element * first.elements, ELEMENTWISE, dtype, _all_moved(sources), written)

    return model


def _fused(per_element: int, reads: int, writes: int) -> Model:
    """(parameters, gradients, states …). The gradients are read, the rest is read and written."""

    def model(s: Signature) -> Cost | None:
        lists = [a for a in s.arguments if isinstance(a, TensorList) and a.tensors][:reads]
        if len(lists) < 2 or s.cut:
            return None
        # The gradients are the second list, the only one that stays as it is.
        changed = [*lists[:1], *lists[2:]][:writes]
        return Cost(
            per_element * lists[0].elements, ELEMENTWISE, lists[0].tensors[0].dtype,
            _all_moved(lists), _all_moved(changed),
        )  # fmt: skip

    return model


def _all_moved(arguments: Iterable[Any]) -> Moved:
    found: list[tuple[str, int]] = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            found += moved(argument)
        elif isinstance(argument, TensorList):
            found += argument.moved
    return tuple(found)
