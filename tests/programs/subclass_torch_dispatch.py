"""A wrapper subclass with __torch_dispatch__: the outer op is on the caller's line, the inner in the subclass."""
# program: only=native nomode

import torch
from torch.utils._pytree import tree_map


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad)  # expect: maybe

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = tree_map(lambda t: t.inner if isinstance(t, Wrapped) else t, (args, kwargs or {}))
        out = func(*plain[0], **plain[1])  # expect: aten::mul; aten::sin x1; any
        return tree_map(lambda t: Wrapped(t) if isinstance(t, torch.Tensor) else t, out)


def main():
    torch.manual_seed(0)
    x = Wrapped(torch.rand(4))  # expect: aten::rand
    x.requires_grad_(True)  # expect: maybe
    y = x * 2  # expect: aten::mul phase=forward function=main backward=MulBackward0
    z = torch.sin(y)  # expect: aten::sin x1 phase=forward function=main backward=SinBackward0
    loss = z.sum()  # expect: aten::sum x1 phase=forward backward=SumBackward0
    loss.backward()  # expect: any
    return z.inner.detach(), x.grad.inner  # expect: any
