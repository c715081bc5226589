"""A module under two names, a module called twice, and one layer in two models."""

import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4, bias=False)  # expect: any
        self.decoder = self.encoder
        self.act = nn.GELU()

    def forward(self, x):
        x = self.encoder(x)  # expect: aten::linear|aten::mm module=encoder
        x = self.act(x)  # expect: aten::gelu x2 module=act
        x = self.act(x)  # expect: aten::gelu x2 module=act
        return self.decoder(x)  # expect: aten::linear|aten::mm module=encoder


class Left(nn.Module):
    def __init__(self, common):
        super().__init__()
        self.common = common

    def forward(self, x):
        return self.common(x)  # expect: aten::linear|aten::addmm module=common


class Right(nn.Module):
    def __init__(self, common):
        super().__init__()
        self.inner = nn.ModuleDict({"borrowed": common})

    def forward(self, x):
        return self.inner["borrowed"](x)  # expect: aten::linear|aten::addmm module=inner.borrowed


def main():
    torch.manual_seed(0)
    x = torch.rand(2, 4)  # expect: aten::rand
    tied = Tied()
    y = tied(tied(x) * 2)  # expect: aten::mul x1 module=-
    common = nn.Linear(4, 4)  # expect: any
    left, right = Left(common), Right(common)
    z = left(right(left(y)))
    w = common(z)  # expect: aten::linear|aten::addmm module=common
    return y, z, w
