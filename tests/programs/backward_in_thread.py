"""Backward runs on another thread than the forward: nodes still join to the forward's lines."""
# program: only=native

import threading

import torch


def main():
    torch.manual_seed(0)
    x = torch.rand(4, requires_grad=True)  # expect: aten::rand thread=main
    y = x.exp()  # expect: aten::exp x1 thread=main phase=forward backward=ExpBackward0
    z = y * 2  # expect: aten::mul thread=main phase=forward backward=MulBackward0
    loss = z.sum()  # expect: aten::sum x1 thread=main phase=forward backward=SumBackward0

    def run():
        loss.backward()  # expect: torch::autograd::AccumulateGrad kind=autograd thread=other phase=backward only=native; any

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return y, x.grad
