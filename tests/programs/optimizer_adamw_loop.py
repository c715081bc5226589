"""Optimizer step (AdamW, one parameter after the other): its ops are on the line that calls step()."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)  # expect: any
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)
    x = torch.rand(3, 4)  # expect: aten::rand
    for _ in range(2):
        loss = model(x).pow(2).mean()  # expect: aten::pow phase=forward; aten::mean x2 phase=forward; aten::linear|aten::addmm module=<root> phase=forward backward=MeanBackward0,PowBackward0,AddmmBackward0
        loss.backward()  # expect: any
        optimizer.step()  # expect: aten::addcdiv_ phase=optimizer
        optimizer.zero_grad(set_to_none=False)  # expect: any
    return list(model.parameters())
