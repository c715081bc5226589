"""Sequences of many lengths, where Dynamo may learn that the length varies: it compiles once more."""

import torch


def forward(ids, table):  # alert: recompile cause=size source=ids.shape[1] expected=5 actual=9 dimension=1 count=1 nth=2 caller=call severity=low|medium advice="mark_dynamic\(ids, 1\)"
    return table[ids].mean(1).relu()


def main():
    compiled = torch.compile(forward, backend="eager")
    table = torch.ones(10, 4)
    for length in (5, 9, 11, 7):
        compiled(torch.ones(2, length, dtype=torch.int64), table)  # mark: call
