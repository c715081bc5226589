"""C functions that call operators: operator, map, reduce, sorted, sum and itertools run on the caller's line."""

import functools
import itertools
import operator

import torch


def main():
    x = torch.rand(4)  # expect: aten::rand
    y = operator.add(x, 1)  # expect: aten::add x1
    z = operator.imul(y, 2)  # expect: aten::mul_ x1
    many = list(map(torch.sin, [x, y, z]))  # expect: aten::sin x3
    total = functools.reduce(operator.sub, many)  # expect: aten::sub x2
    running = list(itertools.accumulate(many, torch.maximum))  # expect: aten::maximum x2
    picked = max(  # expect: aten::sum x3; maybe
        running,  # the call is on the line where it starts
        key=torch.Tensor.sum,
    )
    called = operator.methodcaller("cos")(x)  # expect: aten::cos x1
    return y, total, running, picked, called
