"""A counter in Python, as an attribute of the model: its value is part of every graph."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):  # alert: recompile cause=module_state source=self.calls expected=3|4 actual=5|4 count=4 nth=5 caller=call severity=high|medium advice="register_buffer"
        self.calls += 1
        return x * (1.0 / self.calls)


def main():
    model = torch.compile(Model(), backend="eager", dynamic=False)
    for _ in range(5):
        model(torch.ones(3))  # mark: call
