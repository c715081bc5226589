"""900 Python frames below main: the innermost line is right however deep."""

import torch


def descend(x, depth):
    if depth == 0:
        return torch.sin(x)  # expect: aten::sin x1 function=descend
    y = descend(x, depth - 1)
    return y + 1 if depth % 100 == 0 else y  # expect: aten::add x9


def main():
    x = torch.rand(4)  # expect: aten::rand
    return descend(x, 900)
