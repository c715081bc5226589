"""Two threads build one graph; backward on the main thread joins each node to its own thread's line."""
# program: only=native

import threading

import torch


def left(x, out):
    out["left"] = x.sin()  # expect: aten::sin x1 thread=other backward=SinBackward0


def right(x, out):
    out["right"] = x.cos()  # expect: aten::cos x1 thread=other backward=CosBackward0


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand
    out = {}
    for function in (left, right):
        thread = threading.Thread(target=function, args=(x, out))
        thread.start()
        thread.join()
    y = out["left"] * out["right"]  # expect: aten::mul thread=main backward=MulBackward0
    loss = y.sum()  # expect: aten::sum x1 thread=main backward=SumBackward0
    loss.backward()  # expect: any
    return y, x.grad
