"""A number that changes with each call is passed as a Python number."""

import torch


def scaled(x, rate):  # alert: recompile cause=python_value source=rate expected=0.2|0.1 actual=0.3 count=2 caller=call advice="tensor instead of a Python number"
    return x * rate


def main():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    for rate in (0.1, 0.2, 0.3, 0.1):
        compiled(torch.ones(3), rate)  # mark: call
