"""Functions that close over tensors, and a class with __call__."""

import torch


def make_layer(weight):
    bias = weight.sum(0)  # expect: aten::sum x1 function=make_layer

    def layer(x):
        hidden = x @ weight  # expect: aten::matmul|aten::mm function=make_layer.<locals>.layer

        def finish():
            nonlocal hidden
            hidden = hidden + bias  # expect: aten::add x2
            return hidden

        return finish

    return layer


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor  # expect: aten::mul x2 function=Scaler.__call__

    @property
    def squared(self):
        return torch.tensor(self.factor) ** 2  # expect: aten::pow x1; any function=Scaler.squared


def main():
    weight = torch.rand(4, 4)  # expect: aten::rand
    layer = make_layer(weight)
    finish = layer(weight)
    a = finish()
    b = finish()
    scaler = Scaler(3.0)
    return scaler(a), scaler(b), scaler.squared
