"""torch.jit.script: ops of the interpreter take the line of the call."""
# program: only=native nomode lenient

import warnings

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        return torch.relu(self.fc(x))


def main():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.jit.script(Net())
    x = torch.rand(2, 4)  # expect: aten::rand
    y = net(x)  # expect: aten::relu; aten::linear|aten::addmm
    return y
