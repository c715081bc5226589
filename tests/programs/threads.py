"""Ops in threads: each thread's ops are on its own lines."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch


def worker(x, out):
    y = x * 3  # expect: aten::mul x1 thread=other function=worker
    out.append(y.relu())  # expect: aten::relu x1 thread=other


def pooled(x):
    return torch.sin(x)  # expect: aten::sin x3 thread=other function=pooled


class Runner(threading.Thread):
    def __init__(self, x):
        super().__init__()
        self.x = x

    def run(self):
        self.result = self.x.cos()  # expect: aten::cos x1 thread=other function=Runner.run


def main():
    x = torch.rand(4)  # expect: aten::rand thread=main
    out = []
    thread = threading.Thread(target=worker, args=(x, out), name="my worker")
    thread.start()
    thread.join()
    runner = Runner(x)
    runner.start()
    runner.join()
    with ThreadPoolExecutor(2) as pool:
        many = list(pool.map(pooled, [x, x + 1, x + 2]))  # expect: aten::add x2 thread=main
    return out, runner.result, many
