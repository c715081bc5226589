"""A loop that writes token after token, with a key-value cache that grows."""

import torch


def attend(query, key_cache, value_cache):  # alert: recompile cause=size source=key_cache.shape[1] expected=4|5 actual=6 dimension=1 count=4 caller=call severity=high|medium advice="cache of fixed size"
    weights = (query @ key_cache.transpose(1, 2)).softmax(-1)
    return weights @ value_cache


def main():
    compiled = torch.compile(attend, backend="eager", dynamic=False)
    keys, values = torch.ones(1, 1, 8), torch.ones(1, 1, 8)
    for _ in range(5):
        keys, values = torch.cat([keys, keys[:, :1]], 1), torch.cat([values, values[:, :1]], 1)
        compiled(torch.ones(1, 1, 8), keys, values)  # mark: call
