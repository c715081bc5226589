"""A function made anew for each call, around another number each time."""

import torch


def scaled_by(rate):
    def scaled(x):  # alert: recompile cause=python_value source=rate expected=0.2|0.1 actual=0.3 count=2 caller=call advice="`?rate`?"
        return x * rate

    return scaled


def main():
    for rate in (0.1, 0.2, 0.3):
        torch.compile(scaled_by(rate), backend="eager", dynamic=False)(torch.ones(3))  # mark: call
