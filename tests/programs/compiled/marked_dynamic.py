"""The length is marked as dynamic before the first call: one compilation serves all."""

import torch


def forward(ids, table):
    return table[ids].mean(1).relu()


def main():
    compiled = torch.compile(forward, backend="eager")
    table = torch.ones(10, 4)
    for length in (5, 9, 11, 7):
        ids = torch.ones(2, length, dtype=torch.int64)
        torch._dynamo.mark_dynamic(ids, 1)
        compiled(ids, table)
