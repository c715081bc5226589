"""The same with a cache of fixed size: compiled once."""

import torch


def attend(query, keys, values, position):
    keys.index_copy_(1, position, query)
    values.index_copy_(1, position, query)
    allowed = torch.arange(keys.shape[1]) <= position
    weights = (query @ keys.transpose(1, 2)).masked_fill(~allowed, float("-inf")).softmax(-1)
    return weights @ values


def main():
    compiled = torch.compile(attend, backend="eager", dynamic=False)
    keys, values = torch.zeros(1, 8, 8), torch.zeros(1, 8, 8)
    for i in range(5):
        compiled(torch.ones(1, 1, 8), keys, values, torch.tensor([i]))
