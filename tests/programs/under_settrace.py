"""A program that is traced and profiled by Python hooks of its own, as a debugger or coverage does."""

import sys

import torch

calls = []


def watch(frame, event, argument):
    calls.append(event)
    return watch


def work(x):
    y = x * 3  # expect: aten::mul x2 function=work
    for i in range(2):
        y = y + i  # expect: aten::add x4 function=work
    return [
        y.sin(),  # expect: aten::sin x2
        (lambda t: t.cos())(y),  # expect: aten::cos x2
    ]


def main():
    x = torch.rand(3)  # expect: aten::rand
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        a = work(x)
    finally:
        sys.settrace(before)
    sys.setprofile(watch)
    try:
        b = work(x)
    finally:
        sys.setprofile(None)
    return a, b, len(calls) > 10
