"""Three threads run forward and backward at once: sequence numbers repeat, joins stay right."""
# program: only=native

import threading

import torch


def first(x):
    return x.sin()  # expect: aten::sin x1 phase=forward backward=SinBackward0


def second(x):
    return x.cos()  # expect: aten::cos x1 phase=forward backward=CosBackward0


def third(x):
    return x.tanh()  # expect: aten::tanh x1 phase=forward backward=TanhBackward0


def work(function, barrier, grads, index):
    x = torch.ones(4, requires_grad=True)  # expect: aten::ones x3
    barrier.wait()
    y = function(x)
    barrier.wait()
    y.sum().backward()  # expect: aten::sum backward=SumBackward0,SumBackward0,SumBackward0
    grads[index] = x.grad


def main():
    barrier = threading.Barrier(3)
    grads = {}
    threads = [
        threading.Thread(target=work, args=(f, barrier, grads, i)) for i, f in enumerate((first, second, third))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [grads[i] for i in range(3)]
