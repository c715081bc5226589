"""A print in the middle of a compiled function."""

import torch


def forward(x):
    x = x.sin()
    print("half way", end="")  # alert: graph_break count=1 caller=call severity=low|medium function=forward advice="print"
    return x.cos()


def main():
    compiled = torch.compile(forward, backend="eager")
    for _ in range(3):
        compiled(torch.ones(3))  # mark: call
