"""Steps by prof.step()."""
# program: steps=prof.step:3

import torch


def main(step):
    x = torch.rand(4)  # expect: aten::rand
    for _ in range(3):
        x = x * 2  # expect: aten::mul x3
        step()
    return x
