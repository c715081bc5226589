"""Statements: match, walrus, conditional expressions, try/finally, with, class bodies, defaults, star arguments."""

import contextlib

import torch

WEIGHT = torch.ones(3)


def default_argument(x, offset=WEIGHT.neg()):
    return x + offset  # expect: aten::add x1 function=default_argument


def gather(*tensors, **named):
    return torch.stack([*tensors, *named.values()])  # expect: aten::stack x1 function=gather


def choose(x):
    match x.dim():
        case 1:
            return x.exp()  # expect: aten::exp x1 function=choose
        case _:
            return x.log()


def cleanup(x):
    try:
        y = x.sin()  # expect: aten::sin x1
        raise ValueError
    except ValueError:
        y = y * 2  # expect: aten::mul x1
    finally:
        y = y - 1  # expect: aten::sub x1
    return y


def main():
    x = torch.rand(3)  # expect: aten::rand
    out = []
    if (total := x.sum()) > -1:  # expect: aten::sum x1; aten::gt x1; aten::item|aten::_local_scalar_dense
        out.append(total)
    out.append(
        x.cos()  # expect: aten::cos x1
        if x.max() < 5  # expect: aten::max x1; aten::lt x1; aten::item|aten::_local_scalar_dense
        else x.tan()
    )
    out.append(default_argument(x))
    out.append(
        gather(
            x.ceil(),  # expect: aten::ceil x1
            *[
                x.floor(),  # expect: aten::floor x1
            ],
            last=x.round(),  # expect: aten::round x1
        )
    )
    out.append(choose(x))
    out.append(cleanup(x))

    class Holder:
        value = x.sqrt()  # expect: aten::sqrt x1 function=main.<locals>.Holder
        other: torch.Tensor = value.square()  # expect: aten::square|aten::pow x1 function=main.<locals>.Holder

    out += [Holder.value, Holder.other]
    with (
        contextlib.nullcontext(x.abs()) as a,  # expect: aten::abs x1
        contextlib.nullcontext(x.sign()) as b,  # expect: aten::sign x1
    ):
        out.append(a * b)  # expect: aten::mul x1
    low, *rest = x.tolist(), x.trunc()  # expect: aten::trunc x1; maybe
    out.append(rest[0])
    index = torch.tensor([0, 2])  # expect: any
    x[index] = (  # expect: aten::index_put_
        x[index]  # expect: aten::index x1
        .erf()  # expect: aten::erf x1
    )
    flags = 0 < x.min() < 2  # expect: aten::min x1; aten::gt x1; aten::lt x1; aten::item|aten::_local_scalar_dense
    assert isinstance(low, list)
    out.append(flags)
    return (
        out,
        x.sinh(),  # expect: aten::sinh x1
    )
