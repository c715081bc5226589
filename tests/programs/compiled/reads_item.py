"""The value of a tensor is read in the middle of a compiled function."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        x = self.inner(x)
        largest = x.max().item()  # alert: graph_break count=1 caller=call function=forward advice="read into Python"
        return x / (largest + 1.0)


def main():
    torch.manual_seed(0)
    model = torch.compile(Model(), backend="eager")
    for _ in range(3):
        model(torch.ones(2, 4))  # mark: call
