"""A library function that Dynamo does not trace."""

import linecache
import zlib

import torch


def forward(x):
    x = x.sin()
    linecache.getline(__file__, 1)  # alert: graph_break caller=call function=forward advice="custom operator|Dynamo cannot look"
    x = x.cos()
    zlib.crc32(b"text")  # alert: graph_break caller=call function=forward advice="custom operator|Dynamo cannot look"
    return x.exp()


def main():
    compiled = torch.compile(forward, backend="eager")
    for _ in range(2):
        compiled(torch.ones(3))  # mark: call
