"""Tensors, graphs, modules and frames die when the program lets go of them (the results say so)."""
# program: lenient

import gc
import sys
import weakref

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        local = x * 2  # expect: aten::mul x1 module=<root> backward=MulBackward0
        self.seen = weakref.ref(local)
        return self.fc(local)


class Holder:
    pass


def closure():
    holder = Holder()
    holder.tensor = torch.ones(4)  # expect: aten::ones x1
    ref = weakref.ref(holder)

    def use():
        return holder.tensor + 1  # expect: aten::add x1

    use()
    return ref


def main():
    torch.manual_seed(0)
    gc.disable()
    try:
        block = Block()
        x = torch.rand(2, 4, requires_grad=True)  # expect: aten::rand
        y = block(x)
        seen = block.seen
        alive = seen() is not None  # the graph holds it? x * 2 is saved by the linear layer
        y.sum().backward()  # expect: any
        node = y.grad_fn
        holders = sys.getrefcount(x) < 10
        grad = x.grad
        refs = [weakref.ref(o) for o in (x, y, block, block.fc)]
        del x, y, node, block
        return grad, alive, seen() is None, holders, [r() is None for r in refs], closure()() is None
    finally:
        gc.enable()
