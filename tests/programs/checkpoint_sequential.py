"""Checkpointed parts of a function that calls plain ops, twice nested."""

import torch
from torch.utils.checkpoint import checkpoint


def inner(x):
    return x.cos()  # expect: aten::cos phase=forward; aten::cos phase=recompute only=native backward=CosBackward0


def outer(x):
    y = x * 2  # expect: aten::mul x1 phase=forward; aten::mul phase=recompute backward=MulBackward0
    return checkpoint(inner, y, use_reentrant=False)  # expect: maybe


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    y = checkpoint(outer, x, use_reentrant=False)  # expect: maybe
    y.sum().backward()  # expect: aten::sum x1 backward=SumBackward0
    return y, x.grad
