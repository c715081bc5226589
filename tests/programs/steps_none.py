"""Nothing that could be a step."""
# program: steps=none:0

import torch


def main():
    x = torch.rand(4)  # expect: aten::rand
    return x.sin()  # expect: aten::sin x1
