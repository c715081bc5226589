"""fullgraph=True, and a line that breaks the graph."""

import torch


def forward(x):  # alert: compile_failed count=1 caller=call evidence="failing_fullgraph.py:8" advice="fullgraph=True allows no graph break. Remove the print"
    x = x.sin()
    print("half way", end="")
    return x.cos()


def main():
    compiled = torch.compile(forward, backend="eager", fullgraph=True)
    try:
        compiled(torch.ones(3))  # mark: call
    except Exception:
        forward(torch.ones(3))
