"""Activation checkpointing (use_reentrant=False): the forward runs again inside backward."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        h = self.fc(x)  # expect: aten::linear|aten::addmm module=layers.0.fc phase=forward; aten::linear|aten::addmm module=layers.1.fc phase=forward; aten::linear|aten::addmm x2 phase=recompute backward=AddmmBackward0
        return torch.sin(h)  # expect: aten::sin x2 phase=forward; aten::sin phase=recompute only=native backward=SinBackward0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)  # expect: maybe
        return x.exp()  # expect: aten::exp x1 phase=forward module=<root> backward=ExpBackward0


def main():
    torch.manual_seed(0)
    model = Model()
    x = torch.rand(2, 4, requires_grad=True)  # expect: aten::rand
    y = model(x)
    loss = y.sum()  # expect: aten::sum x1 backward=SumBackward0
    loss.backward()  # expect: any
    return y, x.grad, [p.grad for p in model.parameters()]
