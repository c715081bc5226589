"""The graph exists before the recording starts: its backward says that the forward was not observed."""
# program: lenient

import torch

x = torch.arange(4.0, requires_grad=True)
early = x.sin()


def main():
    late = early.cos()  # expect: aten::cos x1 backward=CosBackward0
    loss = late.sum()  # expect: aten::sum x1 backward=SumBackward0
    (grad,) = torch.autograd.grad(loss, x, retain_graph=True)
    return grad
