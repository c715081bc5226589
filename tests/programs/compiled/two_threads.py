"""Two threads that compile: each alert has the function and the call of its own thread."""

import threading

import torch


def first(x):  # alert: recompile cause=size source=x.shape[0] expected=3 actual=4 count=1 caller=first
    return x.sin()


def second(y):  # alert: recompile cause=dtype source=y expected=float32|Float|torch.float32 actual=float64|Double|torch.float64 count=1 caller=second
    return y.cos()


def main():
    barrier = threading.Barrier(2)

    def run_first():
        compiled = torch.compile(first, backend="eager", dynamic=False)
        barrier.wait()
        for size in (3, 4):
            compiled(torch.ones(size))  # mark: first

    def run_second():
        compiled = torch.compile(second, backend="eager", dynamic=False)
        barrier.wait()
        for dtype in (torch.float32, torch.float64):
            compiled(torch.ones(3, dtype=dtype))  # mark: second

    threads = [threading.Thread(target=run_first), threading.Thread(target=run_second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
