"""Steps by the optimizer: two micro-batches make one step."""
# program: steps=optimizer:3

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)  # expect: any
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    x = torch.rand(2, 4)  # expect: aten::rand
    for batch in range(6):
        model(x).sum().backward()  # expect: any
        if batch % 2:
            optimizer.step()  # expect: aten::add_ phase=optimizer
            optimizer.zero_grad()
    return list(model.parameters())
