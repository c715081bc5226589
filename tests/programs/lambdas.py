"""Lambdas run on the line where their body stands."""

import torch

double = lambda x: x * 2  # noqa: E731  # expect: aten::mul x1 function=<lambda>


def apply(function, x):
    return function(x)


def main():
    x = torch.rand(4)  # expect: aten::rand
    y = double(x)
    z = apply(lambda t: t + 1, y)  # expect: aten::add x1 function=main.<locals>.<lambda>
    w = apply(
        lambda t: t.exp(),  # expect: aten::exp x1
        z,
    )
    many = list(map(lambda t: t.cos(), [x, y]))  # expect: aten::cos x2
    order = sorted([w, z], key=lambda t: float(t.sum()))  # expect: aten::sum x2
    return y, z, w, many, order
