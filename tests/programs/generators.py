"""A generator's ops are on its own lines, also when resumed from elsewhere."""

import torch


def batches(x, n):
    for i in range(n):
        x = x + i  # expect: aten::add x3 function=batches
        yield x
        x = x * 2  # expect: aten::mul x3 function=batches


def accumulate():
    total = torch.zeros(4)  # expect: aten::zeros x1 function=accumulate
    while True:
        received = yield total
        if received is None:
            return
        total = total - received  # expect: aten::sub x3


def delegating(x):
    yield from batches(x, 3)


def main():
    x = torch.rand(4)  # expect: aten::rand
    sums = []
    sink = accumulate()
    next(sink)
    for batch in delegating(x):
        sums.append(batch.sum())  # expect: aten::sum x3
        sink.send(batch)
    total = sum(t.exp() for t in sums)  # expect: aten::exp x3; aten::add x3
    return sums, total
