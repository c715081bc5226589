"""Parametrized weights, an overridden __call__, super().forward and a copied model.

Two models of one class have the same paths inside: the class name (with a number) stands before them.
"""

import copy

import torch
from torch import nn
from torch.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T  # expect: aten::triu; aten::add


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)  # expect: any

    def forward(self, x):
        return self.fc(x)  # expect: aten::linear|aten::addmm module=Derived:fc function=Base.forward; aten::linear|aten::addmm module=Derived#2:fc


class Derived(Base):
    def __call__(self, x):
        return super().__call__(x * 2)  # expect: aten::mul x2 function=Derived.__call__

    def forward(self, x):
        return super().forward(x).relu()  # expect: aten::relu x1 module=Derived function=Derived.forward; aten::relu x1 module=Derived#2


def main():
    torch.manual_seed(0)
    model = Derived()
    parametrize.register_parametrization(model.fc, "weight", Symmetric())  # expect: maybe
    twin = copy.deepcopy(model)  # expect: any
    x = torch.rand(2, 3)  # expect: aten::rand
    return model(x), twin(x)
