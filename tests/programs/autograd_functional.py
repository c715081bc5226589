"""torch.autograd.functional and functional_call: the function's own lines."""

import torch
from torch import nn
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call


def energy(x):
    return (x**3).sum()  # expect: aten::pow; aten::sum


def wave(x):
    return x.sin()  # expect: aten::sin x1


def main():
    torch.manual_seed(0)
    x = torch.rand(3)  # expect: aten::rand
    j = jacobian(wave, x)  # expect: any
    h = hessian(energy, x)  # expect: any
    model = nn.Linear(3, 2)  # expect: any
    weights = {k: v * 2 for k, v in model.named_parameters()}  # expect: aten::mul x2
    y = functional_call(model, weights, (x,))  # expect: aten::linear|aten::addmm module=<root>
    return j, h, y
