"""torch.jit.trace: ops of the traced graph run from C++ and take the line of the call."""
# program: nomode lenient only=native

import warnings

import torch


def function(x):
    y = x.sin()
    return y * 2


def main():
    torch.manual_seed(0)
    x = torch.rand(4)  # expect: aten::rand
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(function, (x,), check_trace=False)
    a = traced(x)  # expect: aten::sin x1; aten::mul x1
    b = traced(x + 1)  # expect: aten::sin x1; aten::mul x1; aten::add x1
    return a, b
