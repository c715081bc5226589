"""List, dict and set comprehensions, nested ones, and conditions inside them."""

import torch


def main():
    base = torch.rand(4)  # expect: aten::rand
    a = [base * i for i in range(3)]  # expect: aten::mul x3
    b = [
        x + 1  # expect: aten::add x3
        for x in a
    ]
    c = {
        i: x.neg()  # expect: aten::neg x3
        for i, x in enumerate(b)
        if x.sum() > -100  # expect: aten::sum x3; aten::gt x3
    }
    d = [[torch.sin(x) for x in row] for row in (a, b)]  # expect: aten::sin x6
    e = {float(x.mean()) for x in a}  # expect: aten::mean x3
    return a, b, c, d, sorted(e)
