"""Hooks on saved tensors: packing runs in the forward, unpacking inside the backward node."""

import torch


def pack(x):
    return x.to(torch.float64)  # expect: aten::to|aten::_to_copy x2 function=pack


def unpack(x):
    return x.to(torch.float32)  # expect: aten::to|aten::_to_copy function=unpack phase=backward


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.sin()  # expect: aten::sin x1; aten::sin only=native backward=SinBackward0
        z = y.cos()  # expect: aten::cos x1; aten::cos only=native backward=CosBackward0
    loss = z.sum()  # expect: aten::sum x1 backward=SumBackward0
    loss.backward()  # expect: any
    return z, x.grad
