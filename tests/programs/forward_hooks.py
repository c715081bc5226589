"""Forward hooks and pre-hooks: their ops are on their own lines."""

import torch
from torch import nn


def halve_inputs(module, args):
    return (args[0] * 0.5,)  # expect: aten::mul x2 function=halve_inputs phase=forward


def shift_output(module, args, output):
    return output + 1  # expect: aten::add x1 function=shift_output phase=forward module=fc


def main():
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("fc", nn.Linear(4, 4))  # expect: any
    model.add_module("act", nn.Sigmoid())
    model.register_forward_pre_hook(halve_inputs)
    model.act.register_forward_pre_hook(halve_inputs)
    handle = model.fc.register_forward_hook(shift_output)
    x = torch.rand(2, 4)  # expect: aten::rand
    y = model(x)  # expect: aten::linear|aten::addmm module=fc; aten::sigmoid x1 module=act
    handle.remove()
    return y
