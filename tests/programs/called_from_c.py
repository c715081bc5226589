"""Ops in a callback that C calls: ctypes, and a comparison inside sort."""

import ctypes
import functools

import torch


def main():
    x = torch.rand(3)  # expect: aten::rand
    out = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    def callback(i):
        out.append(x * i)  # expect: aten::mul x1 function=main.<locals>.callback
        return 0

    callback(5)

    def compare(a, b):
        return float((a - b).sum())  # expect: aten::sub function=main.<locals>.compare; aten::sum; any

    out += sorted([x, x.neg(), x.exp()], key=functools.cmp_to_key(compare))  # expect: aten::neg x1; aten::exp x1
    return out
