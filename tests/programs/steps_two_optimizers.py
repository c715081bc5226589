"""Two optimizers in one loop: the last one's step() ends the step."""
# program: steps=optimizer:3

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)  # expect: any
    one = torch.optim.SGD(generator.parameters(), lr=0.1, foreach=False)
    two = torch.optim.AdamW(critic.parameters(), lr=0.1, foreach=False)
    x = torch.rand(2, 4)  # expect: aten::rand
    for _ in range(3):
        critic(generator(x)).sum().backward()  # expect: any
        one.step()  # expect: aten::add_ phase=optimizer
        two.step()  # expect: aten::addcdiv_ phase=optimizer
        one.zero_grad()
        two.zero_grad()
    return list(generator.parameters()), list(critic.parameters())
