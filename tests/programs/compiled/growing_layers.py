"""A model that gets another layer after each call."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x):  # alert: recompile cause=module_state source=self.layers count=2 nth=3 caller=call advice="build all of it before the first call"
        for layer in self.layers:
            x = layer(x)
        return x


def main():
    model = Model()
    compiled = torch.compile(model, backend="eager")
    for _ in range(3):
        compiled(torch.ones(2, 4))  # mark: call
        model.layers.append(nn.Linear(4, 4))
