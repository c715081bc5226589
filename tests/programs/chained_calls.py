"""Chained method calls: each call is on the line of its own name."""

import torch


class Builder:
    def __init__(self, value):
        self.value = value

    def then(self, function):
        self.value = function(self.value)  # expect: aten::neg x1 function=Builder.then
        return self

    def add(self, other):
        self.value = self.value + other  # expect: aten::add x2 function=Builder.add
        return self


def main():
    x = torch.rand(8, 8)  # expect: aten::rand
    y = (
        x.relu()  # expect: aten::relu x1
        .sigmoid()  # expect: aten::sigmoid x1
        .sum(  # expect: aten::sum x1
            0,
            True,
        )
        .mul(x)  # expect: aten::mul x1
        .t()  # expect: aten::t x1
    )
    z = x.exp().log().add(1).clamp(  # expect: aten::exp; aten::log; aten::add; aten::clamp
        min=0,
        max=1,
    )
    built = (
        Builder(x)
        .add(1)
        .then(torch.neg)
        .add(2)
        .value.cos()  # expect: aten::cos x1
    )
    return y, z, built
