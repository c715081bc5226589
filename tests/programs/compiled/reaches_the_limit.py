"""Dynamo gives up on a function that needs a new graph for each call."""

import torch


def scaled(x, rate):  # alert: recompile cause=python_value source=rate count=2 nth=3 caller=call severity=high limit=3 ; recompile_limit cause=python_value source=rate caller=call limit=3 severity=high advice="tensor instead of a Python number"
    return x * rate


def main():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=3):
        for number in range(6):
            compiled(torch.ones(3), 0.5 + number)  # mark: call
