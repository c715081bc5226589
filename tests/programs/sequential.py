"""nn.Sequential: the user's line is the one that calls it, the module is the layer's path."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 16),  # expect: any
        nn.ReLU(),
        nn.Sequential(nn.Linear(16, 16), nn.Tanh()),  # expect: any
        nn.Linear(16, 1),  # expect: any
    )
    x = torch.rand(4, 8)  # expect: aten::rand module=-
    y = model(x)  # expect: aten::linear|aten::addmm module=0 line=call; aten::relu x1 module=1; aten::tanh x1 module=2.1; aten::linear|aten::addmm module=2.0; aten::linear|aten::addmm module=3 backward=AddmmBackward0,TanhBackward0,ReluBackward0  # mark: call
    loss = y.sum()  # expect: aten::sum x1 module=- backward=SumBackward0
    loss.backward()  # expect: torch::autograd::AccumulateGrad kind=autograd x6 attribution=backward_call phase=backward only=native; aten::ones_like
    return y, [p.grad for p in model.parameters()]
