"""Double backward: the second backward joins through the first to the forward line."""

import torch


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    y = x**3  # expect: aten::pow phase=forward backward=PowBackward0
    total = y.sum()  # expect: aten::sum x1 phase=forward backward=SumBackward0
    (first,) = torch.autograd.grad(total, x, create_graph=True)  # expect: aten::ones_like
    penalty = first * first  # expect: aten::mul x1 phase=forward backward=MulBackward0
    norm = penalty.sum()  # expect: aten::sum x1 phase=forward backward=SumBackward0
    norm.backward()  # expect: any
    return first, x.grad
