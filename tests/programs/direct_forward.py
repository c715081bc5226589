"""model.forward() called directly, a lambda as forward, and a module built by hand."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        return self.fc(x).relu()  # expect: aten::linear|aten::addmm; aten::relu x2


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        x = self.block.forward(x)
        return self.helper(x)

    def helper(self, x):
        return self.block(x).exp()  # expect: aten::exp x1 module=<root>


def main():
    torch.manual_seed(0)
    x = torch.rand(2, 4)  # expect: aten::rand
    return Outer()(x)
