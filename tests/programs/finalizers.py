"""Ops in __del__, in weakref callbacks and in a signal handler: lines of their own."""

import signal
import weakref

import torch


class Resource:
    def __init__(self, x, out):
        self.x, self.out = x, out

    def __del__(self):
        self.out.append(self.x.neg())  # expect: aten::neg x1 function=Resource.__del__


class Token:
    pass


def main():
    x = torch.rand(3)  # expect: aten::rand
    out = []
    resource = Resource(x, out)
    del resource
    token = Token()
    weakref.finalize(token, lambda: out.append(x.exp()))  # expect: aten::exp x1 function=main.<locals>.<lambda>
    del token

    def handler(number, frame):
        out.append(x.cos())  # expect: aten::cos x1 function=main.<locals>.handler

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    out.append(x.sin())  # expect: aten::sin x1
    return out
