"""A gradient penalty through modules: double backward keeps lines and modules of the forward."""

import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)  # expect: any

    def forward(self, x):
        h = self.fc(x)  # expect: aten::linear|aten::addmm module=fc phase=forward backward=AddmmBackward0,AddmmBackward0
        return torch.tanh(h)  # expect: aten::tanh x1 module=<root> phase=forward backward=TanhBackward0,TanhBackward0


def main():
    torch.manual_seed(0)
    critic = Critic()
    x = torch.rand(2, 3, requires_grad=True)  # expect: aten::rand
    score = critic(x).sum()  # expect: aten::sum phase=forward
    (slope,) = torch.autograd.grad(score, x, create_graph=True)  # expect: any
    penalty = slope.pow(2).sum()  # expect: aten::pow phase=forward backward=PowBackward0; aten::sum phase=forward
    loss = score + penalty  # expect: aten::add phase=forward
    loss.backward()  # expect: any
    return loss, [p.grad for p in critic.parameters()]
