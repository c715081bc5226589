"""Work of matrix products, convolutions and attention.

FLOPs are those of ``torch.utils.flop_counter``: two a multiply-add, biases left out, the
masked half of causal attention counted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from neuron_explorer.analysis.op_cost import MATRIX, Cost, moved
from neuron_explorer.analysis.signature import Signature, Tensor

Model = Callable[[Signature], "Cost | None"]


def _product(left: Tensor | None, right: Tensor | None, bias: Tensor | None = None) -> Cost | None:
    """(…, m, k) by (…, k, n), with equal leading sizes."""
    if left is None or right is None or len(left.shape) != len(right.shape) or len(left.shape) < 2:
        return None
    *batch, rows, inner = left.shape
    if right.shape[:-2] != tuple(batch) or right.shape[-2] != inner:
        return None
    out = Tensor((*batch, rows, right.shape[-1]), left.dtype)
    return Cost(2 * out.elements * inner, MATRIX, left.dtype, moved(left, right, bias), moved(out))


def _mm(s: Signature) -> Cost | None:
    return _product(s.tensor(0), s.tensor(1))


def _addmm(s: Signature) -> Cost | None:
    return _product(s.tensor(1), s.tensor(2), s.tensor(0))


def _vector(matrix: Tensor | None, vector: Tensor | None, bias: Tensor | None = None) -> Cost | None:
    if matrix is None or vector is None or len(matrix.shape) != 2 or vector.shape != matrix.shape[1:]:
        return None
    out = Tensor(matrix.shape[:1], matrix.dtype)
    return Cost(2 * matrix.elements, MATRIX, matrix.dtype, moved(matrix, vector, bias), moved(out))


def _dot(s: Signature) -> Cost | None:
    a, b = s.tensor(0), s.tensor(1)
    if a is None or b is None or a.shape != b.shape:
        return None
    return Cost(2 * a.elements, MATRIX, a.dtype, moved(a, b), ((a.dtype, 1),))


def _linear(s: Signature) -> Cost | None:
    x, weight, bias = s.tensor(0), s.tensor(1), s.tensor(2)
    if x is None or weight is None or len(weight.shape) != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        return None
    out = Tensor((*x.shape[:-1], weight.shape[0]), x.dtype)
    return Cost(2 * out.elements * weight.shape[1], MATRIX, x.dtype, moved(x, weight, bias), moved(out))


def _linear_backward(s: Signature) -> Cost | None:
    """(input, grad, weight, which results)."""
    x, grad, weight = s.tensor(0), s.tensor(1), s.tensor(2)
    if x is None or grad is None or weight is None or len(weight.shape) != 2:
        return None
    mask = _mask(s.value(3), 3)
    one = 2 * x.elements * weight.shape[0]
    results = [t for t, wanted in zip((x, weight, Tensor(weight.shape[:1], x.dtype)), mask, strict=True) if wanted]
    return Cost(one * (mask[0] + mask[1]), MATRIX, x.dtype, moved(x, grad, weight), moved(*results))


# ---------------------------------------------------------------- convolutions


def _spread(value: Any, dims: int) -> list[int] | None:
    numbers = value if isinstance(value, list) else [value]
    if not all(type(n) is int and 0 <= n < 1 << 31 for n in numbers) or len(numbers) not in (1, dims):
        return None
    return numbers * dims if len(numbers) == 1 else numbers


def _convolved(s: Signature, x: Tensor, weight: Tensor, first: int) -> Tensor | None:
    """The result; ``first``: position of stride, padding, dilation, transposed, output_padding, groups."""
    dims = len(x.shape) - 2
    if dims < 1 or len(weight.shape) != len(x.shape):
        return None
    stride, padding, dilation = (_spread(s.value(first + i), dims) for i in range(3))
    transposed, groups = s.value(first + 3) is True, s.value(first + 5, 1)
    if stride is None or padding is None or dilation is None or 0 in stride or type(groups) is not int:
        return None
    extra = _spread(s.value(first + 4, 0), dims) or [0] * dims
    sizes = []
    for i in range(dims):
        reach = dilation[i] * (weight.shape[2 + i] - 1)
        if transposed:
            sizes.append((x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + reach + extra[i] + 1)
        else:
            sizes.append((x.shape[2 + i] + 2 * padding[i] - reach - 1) // stride[i] + 1)
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if min(sizes) < 0:
        return None
    return Tensor((x.shape[0], channels, *sizes), x.dtype)


def _conv_flops(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> int:
    return 2 * x.shape[0] * prod((x if transposed else out).shape[2:]) * weight.elements


def _convolution(s: Signature) -> Cost | None:
    x, weight, bias = s.tensor(0), s.tensor(1), s.tensor(2)
    if x is None or weight is None:
        return None
    out = _convolved(s, x, weight, 3)
    if out is None:
        return None
    flops = _conv_flops(x, weight, out, s.value(6) is True)
    return Cost(flops, MATRIX, x.dtype, moved(x, weight, bias), moved(out))


def _mkldnn_convolution(s: Signature) -> Cost | None:
    """(input, weight, bias, padding, stride, dilation, groups)."""
    a = s.arguments
    if len(a) < 7:
        return None
    return _convolution(Signature((*a[:3], a[4], a[3], a[5], False, 0, a[6])))


def _convolution_backward(s: Signature) -> Cost | None:
    """(grad, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask)."""
    return _conv_gradients(s, s.value(10))


def _convolution_backward_overrideable(s: Signature) -> Cost | None:
    """(grad, input, weight, stride, padding, dilation, transposed, output padding, groups, mask)."""
    a = s.arguments
    if len(a) < 10:
        return None
    return _conv_gradients(Signature((*a[:3], None, *a[3:])), a[9])


def _conv_gradients(s: Signature, mask: Any) -> Cost | None:
    grad, x, weight = s.tensor(0), s.tensor(1), s.tensor(2)
    if grad is None or x is None or weight is None or not len(grad.shape) == len(x.shape) == len(weight.shape) >= 3:
        return None
    wanted = _mask(mask, 3)
    one = _conv_flops(x, weight, grad, s.value(7) is True)
    bias = Tensor(grad.shape[1:2], grad.dtype)
    results = [t for t, w in zip((x, weight, bias), wanted, strict=True) if w]
    return Cost(one * (wanted[0] + wanted[1]), MATRIX, x.dtype, moved(grad, x, weight), moved(*results))


def _mask(value: Any, length: int) -> list[bool]:
    """Which results are wanted; all of them where the trace does not say."""
    if isinstance(value, list) and len(value) >= length:
        return [v is True for v in value[:length]]
    return [True] * length


# ---------------------------------------------------------------- attention


def _attention(q: Tensor | None, k: Tensor | None, v: Tensor | None) -> tuple[int, Tensor] | None:
    """FLOPs of one of the products with q, k and v, and the result: (batch, heads, length, width)."""
    if q is None or k is None or v is None or not len(q.shape) == len(k.shape) == len(v.shape) >= 3:
        return None
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        return None
    scores = prod(q.shape[:-1]) * k.shape[-2]
    return scores, Tensor((*q.shape[:-1], v.shape[-1]), q.dtype)


def _attention_forward(s: Signature) -> Cost | None:
    q, k, v = s.tensor(0), s.tensor(1), s.tensor(2)
    found = _attention(q, k, v)
    if found is None or q is None or v is None:
        return None
    scores, out = found
    return Cost(2 * scores * (q.shape[-1] + v.shape[-1]), MATRIX, q.dtype, moved(q, k, v, s.tensor(3)), moved(out))


def _attention_backward(s: Signature) -> Cost | None:
    """(grad, q, k, v, …): the scores again, and four products for the gradients."""
    q, k, v = s.tensor(1), s.tensor(2), s.tensor(3)
    found = _attention(q, k, v)
    if found is None or q is None or k is None or v is None:
        return None
    scores, out = found
    flops = 2 * scores * (3 * q.shape[-1] + 2 * v.shape[-1])
    return Cost(flops, MATRIX, q.dtype, moved(s.tensor(0), q, k, v, out), moved(q, k, v))


MATRIX_MODELS: Final[dict[str, Model]] = {
    "mm": _mm,
    "bmm": _mm,
    "_scaled_mm": _mm,
    "addmm": _addmm,
    "addmm_": _addmm,
    "_addmm_activation": _addmm,
    "baddbmm": _addmm,
    "baddbmm_": _addmm,
    "mv": lambda s: _vector(s.tensor(0), s.tensor(1)),
    "addmv": lambda s: _vector(s.tensor(1), s.tensor(2), s.tensor(0)),
    "addmv_": lambda s: _vector(s.tensor(1), s.tensor(2), s.tensor(0)),
    "dot": _dot,
    "vdot": _dot,
    "linear_backward": _linear_backward,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "mkldnn_convolution": _mkldnn_convolution,
    "convolution_backward": _convolution_backward,
    "convolution_backward_overrideable": _convolution_backward_overrideable,
    **{
        f"_scaled_dot_product_{form}": _attention_forward
        for form in ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention",
                     "fused_attention_overrideable")
    },
    **{
        f"_scaled_dot_product_{form}_backward": _attention_backward
        for form in ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention",
                     "fused_attention_overrideable")
    },
}  # fmt: skip

UNLESS_IN_PARTS: Final[dict[str, Model]] = {
    "linear": _linear,
    "matmul": _mm,
    "scaled_dot_product_attention": _attention_forward,
}
"""Composite operators: their parts count, and only where no part was recorded they themselves."""
