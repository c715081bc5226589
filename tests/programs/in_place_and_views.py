"""In-place ops and views with gradients: the rebuilt nodes join to the line that made them."""

import torch


def main():
    torch.manual_seed(0)
    x = torch.rand(3, 4, requires_grad=True)  # expect: aten::rand
    y = x.clone()  # expect: aten::clone x1; aten::clone only=native backward=CloneBackward0
    view = y[0]  # expect: aten::select
    view.mul_(2)  # expect: aten::mul_ x1; any
    y[:, 1] = 0  # expect: any
    z = y.t().contiguous()  # expect: aten::t x1; any
    loss = z.exp().sum()  # expect: aten::exp x1; aten::sum x1 backward=ExpBackward0,SumBackward0
    loss.backward()  # expect: any
    return y, z, x.grad
