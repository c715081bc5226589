"""A custom autograd.Function: forward and backward have lines of their own."""

import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3  # expect: aten::pow x2 function=Cube.forward phase=forward

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        square = x * x  # expect: aten::mul x2 function=Cube.backward phase=backward
        return (
            grad  # expect: aten::mul x4 function=Cube.backward phase=backward
            * 3.0
            * square
        )


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x * factor  # expect: aten::mul x1 function=Scale.forward phase=forward

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None  # expect: aten::mul x1 function=Scale.backward phase=backward


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    y = Cube.apply(x)  # expect: Cube x1 only=native backward=CubeBackward
    z = Scale.apply(y, 2.0)  # expect: Scale x1 only=native backward=ScaleBackward
    w = Cube.apply(  # expect: Cube x1 only=native backward=CubeBackward
        z
    )
    loss = w.sum()  # expect: aten::sum x1 backward=SumBackward0
    loss.backward()  # expect: any
    return w, x.grad
