"""A branch that depends on the value of a tensor."""

import torch


def forward(x):
    x = x.sin()
    if x.sum() > 0:  # alert: graph_break count=1 caller=call function=forward advice="torch.where"
        return x.cos()
    return x.exp()


def main():
    compiled = torch.compile(forward, backend="eager")
    for sign in (1, -1, 1):
        compiled(torch.ones(3) * sign)  # mark: call
