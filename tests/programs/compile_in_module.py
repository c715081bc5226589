"""A compiled layer inside an eager model: launches belong to the calling line, eager ops keep theirs."""
# program: only=native nomode own_process lenient tracing

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        return torch.relu(self.fc(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)  # expect: any
        self.block = torch.compile(Block(), backend="aot_eager")  # expect: maybe

    def forward(self, x):
        h = self.first(x)  # expect: aten::linear x2 module=first backward=AddmmBackward0
        h = self.block(h)  # expect: Torch-Compiled* kind=launch x2
        return h.exp()  # expect: aten::exp x2 module=<root> backward=ExpBackward0


def main():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Model()
    x = torch.rand(2, 4)  # expect: aten::rand
    model(x)
    y = model(x)
    loss = y.sum()  # expect: aten::sum x1 backward=SumBackward0
    loss.backward()
    return y, [p.grad for p in model.parameters()]
