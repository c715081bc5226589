"""Work of normalisations, reductions, look-ups, copies and fills."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from neuron_explorer.analysis.op_cost import ELEMENTWISE, Cost, moved, promoted
from neuron_explorer.analysis.signature import Signature, Tensor, TensorList

Model = Callable[[Signature], "Cost | None"]

SOFTMAX: Final = 5
"""FLOPs an element: maximum, subtraction, exponential, sum, division."""

LAYER_NORM: Final = 7
"""Mean, subtraction, square, sum, scaling, weight, bias."""

RMS_NORM: Final = 4
BATCH_NORM: Final = 7
NORM_BACKWARD: Final = 11
SOFTMAX_BACKWARD: Final = 4


def _elementwise(flops: int, dtype: str, read: Any, written: Any) -> Cost:
    return Cost(flops if dtype.startswith(("float", "bfloat", "complex")) else 0, ELEMENTWISE, dtype, read, written)


def _same(per_element: int, *others: int) -> Model:
    """A result like the first argument; ``others``: positions of what else is read."""

    def model(s: Signature) -> Cost | None:
        x = s.tensor(0)
        if x is None:
            return None
        read = moved(x, *(s.tensor(i) for i in others))
        return _elementwise(per_element * x.elements, x.dtype, read, moved(x))

    return model


def _softmax_backward(s: Signature) -> Cost | None:
    grad, out = s.tensor(0), s.tensor(1)
    if grad is None or out is None:
        return None
    return _elementwise(SOFTMAX_BACKWARD * grad.elements, grad.dtype, moved(grad, out), moved(grad))


def _layer_norm(s: Signature) -> Cost | None:
    """(input, normalised sizes, weight, bias, eps): also the mean and deviation of each row."""
    x, sizes = s.tensor(0), s.value(1)
    if x is None or not _sizes(sizes):
        return None
    rows = Tensor((x.elements // max(prod(sizes), 1),), "float32")
    read = moved(x, s.tensor(2), s.tensor(3))
    return _elementwise(LAYER_NORM * x.elements, x.dtype, read, moved(x, rows, rows))


def _rms_norm(s: Signature) -> Cost | None:
    x = s.tensor(0)
    if x is None:
        return None
    return _elementwise(RMS_NORM * x.elements, x.dtype, moved(x, s.tensor(2)), moved(x))


def _layer_norm_backward(s: Signature) -> Cost | None:
    """(grad, input, sizes, mean, rstd, weight, bias, which results)."""
    grad, x = s.tensor(0), s.tensor(1)
    if grad is None or x is None:
        return None
    parts = (s.tensor(3), s.tensor(4), s.tensor(5), s.tensor(6))
    return _elementwise(NORM_BACKWARD * x.elements, x.dtype, moved(grad, x, *parts), moved(x, *parts[2:]))


def _batch_norm(s: Signature) -> Cost | None:
    """(input, weight, bias, running mean, running variance, …)."""
    x = s.tensor(0)
    if x is None:
        return None
    parts = tuple(s.tensor(i) for i in range(1, 5))
    return _elementwise(BATCH_NORM * x.elements, x.dtype, moved(x, *parts), moved(x, *parts[2:]))


def _batch_norm_backward(s: Signature) -> Cost | None:
    """(grad, input, weight, …)."""
    grad, x, weight = s.tensor(0), s.tensor(1), s.tensor(2)
    if grad is None or x is None:
        return None
    return _elementwise(NORM_BACKWARD * x.elements, x.dtype, moved(grad, x, weight), moved(x, weight, weight))


def _group_norm(s: Signature) -> Cost | None:
    x = s.tensor(0)
    if x is None:
        return None
    return _elementwise(LAYER_NORM * x.elements, x.dtype, moved(x, s.tensor(1), s.tensor(2)), moved(x))


# ---------------------------------------------------------------- reductions


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 46 for v in value)


def reduction(dims_at: int | None, per_element: int = 1, result: str = "", twice: bool = False) -> Model:
    """One result for each place along the other dimensions.

    ``dims_at``: position of the dimensions, None for all of them. ``result``: dtype of the
    result ("" for the input's). ``twice``: values and their indices.
    """

    def model(s: Signature) -> Cost | None:
        x = s.tensor(0)
        if x is None:
            return None
        kept = x.elements
        dims = None if dims_at is None else s.value(dims_at)
        # Without dimensions the place holds a dtype or a flag.
        chosen = dims if isinstance(dims, list) else [dims] if type(dims) is int else []
        if not all(type(d) is int for d in chosen):
            return None
        if chosen and x.shape:
            if any(not -len(x.shape) <= d < len(x.shape) for d in chosen):
                return None
            folded = {d % len(x.shape) for d in chosen}
            kept = prod(size for d, size in enumerate(x.shape) if d not in folded)
        else:
            kept = 1
        written = ((result or x.dtype, kept),) + ((("int64", kept),) if twice else ())
        return _elementwise(per_element * x.elements, x.dtype, moved(x), written)

    return model


# ---------------------------------------------------------------- look-ups


def _embedding(s: Signature) -> Cost | None:
    weight, index = s.tensor(0), s.tensor(1)
    if weight is None or index is None or len(weight.shape) != 2:
        return None
    rows = Tensor((*index.shape, weight.shape[1]), weight.dtype)
    return _elementwise(0, weight.dtype, moved(rows, index), moved(rows))


def _embedding_backward(s: Signature) -> Cost | None:
    """(grad, indices, rows, …): a whole table is written, most of it zeros."""
    grad, index, rows = s.tensor(0), s.tensor(1), s.value(2)
    if grad is None or index is None or not grad.shape or type(rows) is not int or not 0 <= rows < 1 << 46:
        return None
    table = Tensor((rows, grad.shape[-1]), grad.dtype)
    return _elementwise(grad.elements, grad.dtype, moved(grad, index), moved(table))


def _index_select(s: Signature) -> Cost | None:
    x, dim, index = s.tensor(0), s.value(1), s.tensor(2)
    if x is None or index is None or type(dim) is not int or not -len(x.shape) <= dim < len(x.shape):
        return None
    sizes = list(x.shape)
    sizes[dim] = index.elements
    out = Tensor(tuple(sizes), x.dtype)
    return _elementwise(0, x.dtype, moved(out, index), moved(out))


def _gather(s: Signature) -> Cost | None:
    x, index = s.tensor(0), s.tensor(2)
    if x is None or index is None:
        return None
    out = Tensor(index.shape, x.dtype)
    return _elementwise(0, x.dtype, moved(out, index), moved(out))


def _placed(source_at: int) -> Model:
    """(destination, dimension, index, source): only the source's places are written."""

    def model(s: Signature) -> Cost | None:
        target, index, source = s.tensor(0), s.tensor(2), s.tensor(source_at)
        if target is None or index is None or source is None:
            return None
        return _elementwise(0, target.dtype, moved(index, source), moved(source))

    return model


def _number(s: Signature) -> Cost | None:
    return Cost(0, ELEMENTWISE, "float32", (), (("float32", 1),))


def _nll_forward(s: Signature) -> Cost | None:
    """(log-probabilities, targets, …): one of each row is read."""
    x, target = s.tensor(0), s.tensor(1)
    if x is None or target is None:
        return None
    picked = Tensor(target.shape, x.dtype)
    return _elementwise(target.elements, x.dtype, moved(picked, target), ((x.dtype, 1),))


def _nll_backward(s: Signature) -> Cost | None:
    x, target = s.tensor(1), s.tensor(2)
    if x is None or target is None:
        return None
    return _elementwise(target.elements, x.dtype, moved(target), moved(x))


def _pool(channels_last_sizes: int, indices: bool, per_element: int = 1) -> Model:
    """(input, kernel, stride, padding, …): one result for each place of the window."""

    def model(s: Signature) -> Cost | None:
        x, kernel = s.tensor(0), s.value(1)
        n = channels_last_sizes
        if x is None or not _sizes(kernel) or len(x.shape) < n:
            return None
        kernel = kernel * n if len(kernel) == 1 else kernel
        stride = s.value(2) or kernel
        padding = s.value(3) or [0] * n
        stride, padding = (v * n if len(v) == 1 else v for v in (stride, padding) if isinstance(v, list))
        if not len(kernel) == len(stride) == len(padding) == n or not _sizes(stride) or not _sizes(padding):
            return None
        if 0 in stride:
            return None
        sizes = [(x.shape[i - n] + 2 * padding[i] - kernel[i]) // stride[i] + 1 for i in range(n)]
        if min(sizes) < 0:
            return None
        out = Tensor((*x.shape[: len(x.shape) - n], *sizes), x.dtype)
        written = moved(out) + ((("int64", out.elements),) if indices else ())
        return _elementwise(per_element * out.elements * prod(kernel), x.dtype, moved(x), written)

    return model


def _pool_backward(s: Signature) -> Cost | None:
    """(grad, input, …, indices)."""
    grad, x = s.tensor(0), s.tensor(1)
    if grad is None or x is None:
        return None
    rest = s.tensors[2:]
    return _elementwise(grad.elements, x.dtype, moved(grad, *rest), moved(x))


# ---------------------------------------------------------------- copies and fills


def _copy(s: Signature) -> Cost | None:
    """(destination, source)."""
    target, source = s.tensor(0), s.tensor(1)
    if target is None:
        return None
    return Cost(0, ELEMENTWISE, target.dtype, moved(source), moved(target))


def _clone(s: Signature) -> Cost | None:
    x = s.tensor(0)
    return None if x is None else Cost(0, ELEMENTWISE, x.dtype, moved(x), moved(x))


def _fill(s: Signature) -> Cost | None:
    x = s.tensor(0)
    return None if x is None else Cost(0, ELEMENTWISE, x.dtype, (), moved(x))


def _fill_last(s: Signature) -> Cost | None:
    found = s.tensors
    return Cost(0, ELEMENTWISE, found[-1].dtype, (), moved(found[-1])) if found else None


def _cat(s: Signature) -> Cost | None:
    first = s.arguments[0] if s.arguments else None
    out = next((a for a in s.arguments[1:] if isinstance(a, Tensor)), None)
    if not isinstance(first, TensorList) or not first.tensors:
        return None
    dtype = promoted(first.tensors)
    if out is not None:
        return Cost(0, ELEMENTWISE, dtype, ((dtype, out.elements),), moved(out))
    if s.cut:
        return None
    return Cost(0, ELEMENTWISE, dtype, first.moved, ((dtype, first.elements),))


def _dropout(s: Signature) -> Cost | None:
    x = s.tensor(0)
    if x is None:
        return None
    return _elementwise(2 * x.elements, x.dtype, moved(x), (*moved(x), ("bool", x.elements)))


_DIM_REDUCTIONS: Final = ("sum", "mean", "amax", "amin", "prod", "nansum", "logsumexp")

DATA_MODELS: Final[dict[str, Model]] = {
    "_softmax": _same(SOFTMAX),
    "_log_softmax": _same(SOFTMAX),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _softmax_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "_fused_rms_norm": _rms_norm,
    "_fused_rms_norm_backward": _pool_backward,
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
         "_batch_norm_with_update", "cudnn_batch_norm", "miopen_batch_norm"), _batch_norm),
    **dict.fromkeys(("native_batch_norm_backward", "batch_norm_backward"), _batch_norm_backward),
    "native_group_norm": _group_norm,
    **{name: reduction(1) for name in _DIM_REDUCTIONS},
    "argmax": reduction(1, result="int64"),
    "argmin": reduction(1, result="int64"),
    "any": reduction(1, result="bool"),
    "all": reduction(1, result="bool"),
    "max": reduction(1, twice=True),
    "min": reduction(1, twice=True),
    "var": reduction(1, 4),
    "std": reduction(1, 4),
    "var_mean": reduction(1, 4),
    "std_mean": reduction(1, 4),
    "linalg_vector_norm": reduction(2, 2),
    "norm": reduction(2, 2),
    "cumsum": _same(1),
    "cumprod": _same(1),
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "index_select": _index_select,
    "gather": _gather,
    **dict.fromkeys(("index_copy_", "index_add_"), _placed(3)),
    **dict.fromkeys(("scatter_", "scatter_add_"), _placed(3)),
    "scalar_tensor": _number,
    "nll_loss_forward": _nll_forward,
    "nll_loss2d_forward": _nll_forward,
    "nll_loss_backward": _nll_backward,
    "nll_loss2d_backward": _nll_backward,
    "max_pool2d_with_indices": _pool(2, True),
    "max_pool3d_with_indices": _pool(3, True),
    "avg_pool2d": _pool(2, False),
    "avg_pool3d": _pool(3, False),
    **dict.fromkeys(
        ("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "avg_pool2d_backward",
         "avg_pool3d_backward"), _pool_backward),
    "copy_": _copy,
    "_copy_from": lambda s: _copy(Signature((s.tensor(1), s.tensor(0)))),
    "clone": _clone,
    "_to_copy": _clone,
    "flip": _clone,
    "roll": _clone,
    "cat": _cat,
    **dict.fromkeys(
        ("fill_", "zero_", "uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_"), _fill),
    "arange": _fill_last,
    "native_dropout": _dropout,
}  # fmt: skip

