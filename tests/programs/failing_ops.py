"""Ops that raise: they end all the same, and what follows is on its own line."""

import torch


def attempt(x):
    try:
        return x @ torch.ones(7, 7)  # expect: aten::ones x1; any
    except RuntimeError:
        return x.neg()  # expect: aten::neg x1


def main():
    x = torch.rand(4, 4)  # expect: aten::rand
    y = attempt(x)
    try:
        torch.stack([x, torch.ones(2)])  # expect: aten::ones x1; any
    except RuntimeError:
        y = y + 1  # expect: aten::add x1
    z = x.double()  # expect: aten::to|aten::_to_copy
    return y, z
