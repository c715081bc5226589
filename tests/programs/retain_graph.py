"""backward() twice over one graph: both passes join to the same forward lines."""

import torch


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    y = x.sin()  # expect: aten::sin x1 backward=SinBackward0,SinBackward0
    loss = y.sum()  # expect: aten::sum x1 backward=SumBackward0,SumBackward0
    loss.backward(retain_graph=True)  # expect: any
    loss.backward()  # expect: any
    return y, x.grad
