"""step() with a closure, a scheduler and gradient clipping: forward and backward inside step() stay what they are."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)  # expect: any
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    x = torch.rand(3, 4)  # expect: aten::rand

    def closure():
        optimizer.zero_grad()
        loss = model(x).pow(2).sum()  # expect: aten::pow phase=forward; aten::sum phase=forward; aten::linear|aten::addmm module=<root> phase=forward backward=SumBackward0,PowBackward0,AddmmBackward0
        loss.backward()  # expect: any
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: any
        return loss

    for _ in range(2):
        optimizer.step(closure)  # expect: aten::add_ phase=optimizer
        scheduler.step()
    return list(model.parameters())
