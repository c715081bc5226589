"""Expressions over several lines: the line of the instruction, as a traceback says it."""

import torch


def scale(x, *, by, offset):
    return (  # the whole expression starts on the next line
        x  # expect: aten::mul function=scale; aten::add
        * by
        + offset
    )


def main():
    a = torch.rand(4, 4)  # expect: aten::rand function=main
    b = torch.rand(4, 4)  # expect: aten::rand
    y = (
        a  # expect: aten::matmul|aten::mm x1
        @ b
    )
    s = (
        y  # expect: aten::div; aten::sub
        / 2.0
        - (
            a  # expect: aten::mul
            * b
        )
    )
    s = (  # expect: aten::sub x1
        a + b  # expect: aten::add x1
    ) - y
    w = torch.add(  # expect: aten::add x1
        a,
        torch.mul(  # expect: aten::mul x1
            a,
            torch.sin(b),  # expect: aten::sin x1
        ),
        alpha=2,
    )
    k = scale(
        w,
        by=torch.cos(a),  # expect: aten::cos x1
        offset=torch.tanh(  # expect: aten::tanh x1
            b  # the call's line is where `torch.tanh` stands
        ),
    )
    k = k * 1.0  # expect: aten::mul
    batch = {
        "x": a + 1,  # expect: aten::add x1
        "y": [
            a * 2,  # expect: aten::mul x1
            a - 3,  # expect: aten::sub x1
        ],
    }
    total = s \
        .exp() \
        .sum()  # expect: aten::exp x1 line=-1; aten::sum x1
    return y, s, w, k, batch, total
