"""functools.partial of an operator runs on the caller's line, of a function on the function's."""

import functools

import torch


def affine(x, scale, offset):
    y = x * scale  # expect: aten::mul x2 function=affine
    return y + offset  # expect: aten::add x2 function=affine


def main():
    x = torch.rand(4)  # expect: aten::rand
    add_two = functools.partial(torch.sub, other=2)
    halve = functools.partial(affine, scale=0.5, offset=1.0)
    a = add_two(x)  # expect: aten::sub x1 function=main
    b = halve(x)
    c = functools.partial(halve, offset=3.0)(a)
    d = functools.reduce(torch.maximum, [a, b, c])  # expect: aten::maximum x2 function=main
    return a, b, c, d
