"""A counter in Python, as a global of the module."""

import torch

temperature = 1.0


def scaled(x):  # alert: recompile cause=global_value source=temperature expected=2.0|1.5 actual=2.5|2.0 count=2|3 caller=call advice="The global `temperature`.*as an argument"
    return x / temperature


def main():
    global temperature
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    for _ in range(4):
        compiled(torch.ones(3))  # mark: call
        temperature += 0.5
