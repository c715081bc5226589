"""Every operator, augmented assignment, subscripts, and the operators hidden in statements."""

import torch


def main():
    x = torch.arange(1.0, 13.0).reshape(3, 4)  # expect: aten::arange; aten::reshape|aten::view
    i = torch.arange(12).reshape(3, 4)  # expect: aten::arange
    out = []
    out.append(x + x)  # expect: aten::add x1
    out.append(x - 1)  # expect: aten::sub x1
    out.append(2 * x)  # expect: aten::mul x1
    out.append(x / 3)  # expect: aten::div x1
    out.append(i // 2)  # expect: aten::floor_divide x1
    out.append(i % 5)  # expect: aten::remainder x1
    out.append(x**2)  # expect: aten::pow x1
    out.append(x @ x.T)  # expect: aten::matmul|aten::mm
    out.append(-x)  # expect: aten::neg x1
    out.append(~(i > 4))  # expect: aten::gt x1; aten::bitwise_not x1
    out.append(abs(x))  # expect: aten::abs x1
    out.append((i & 3) | (i ^ 5))  # expect: aten::bitwise_and x1; aten::bitwise_or x1; aten::bitwise_xor x1
    out.append(i << 1)  # expect: aten::__lshift__|aten::bitwise_left_shift
    out.append(x == 2)  # expect: aten::eq x1
    out.append(x <= 2)  # expect: aten::le x1
    x += 1  # expect: aten::add_ x1
    x *= 2  # expect: aten::mul_ x1
    x -= torch.ones(4)  # expect: aten::ones x1; aten::sub_ x1
    x /= 2  # expect: aten::div_ x1
    x[0] = 7  # expect: aten::select x1; aten::fill_
    x[:, 1:3] += 1  # expect: aten::slice; aten::add_
    y = x[0, ...]  # expect: aten::select x1
    first, second, third = x  # expect: aten::unbind x1
    for row in x:  # expect: aten::unbind x1
        y = y + row  # expect: aten::add x3
    if x.sum() > 0:  # expect: aten::sum; aten::gt x1; aten::item|aten::_local_scalar_dense
        y = y * 2  # expect: aten::mul x1
    while (y > 20).any():  # expect: aten::gt; aten::any; aten::is_nonzero|aten::_local_scalar_dense
        y = y / 2  # expect: aten::div
    number = float(y.sum())  # expect: aten::sum x1; aten::item|aten::_local_scalar_dense
    text = f"{y.max():.2f}"  # expect: aten::max x1; aten::item|aten::_local_scalar_dense
    assert (y < 1000).all()  # expect: aten::lt; aten::all; aten::is_nonzero|aten::_local_scalar_dense
    inside = 1 in i  # expect: aten::eq x1; aten::any x1; any
    return out, first, second, third, number, len(text) > 0, inside
