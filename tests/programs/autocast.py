"""autocast: the casts it inserts are on the line of the op that needed them."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    fc = nn.Linear(4, 4)  # expect: any
    x = torch.rand(2, 4)  # expect: aten::rand
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = fc(x)  # expect: aten::to|aten::_to_copy; aten::linear|aten::addmm backward=AddmmBackward0
        z = y @ x.T  # expect: aten::to|aten::_to_copy; aten::matmul|aten::mm backward=MmBackward0
        w = z.float().softmax(-1)  # expect: aten::softmax|aten::_softmax backward=SoftmaxBackward0
    loss = w.square().sum()  # expect: aten::sum; aten::square|aten::pow backward=SumBackward0
    loss.backward()  # expect: any
    return y, z, w, fc.weight.grad
