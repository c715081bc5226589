"""Inference: each call of the outermost module from one line is a step."""
# program: steps=module_call:4

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())  # expect: any
    x = torch.rand(2, 4)  # expect: aten::rand
    with torch.no_grad():
        for _ in range(4):
            x = model(x)  # expect: aten::relu x4 module=1; aten::linear|aten::addmm module=0
    return x
