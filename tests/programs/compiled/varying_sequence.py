"""A transformer, compiled for fixed shapes, that is given sequences of many lengths."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(10, 8)
        self.attention = Attention()
        self.norm = nn.LayerNorm(8)

    def forward(self, ids):  # alert: recompile cause=size source=ids.shape[1] expected=11 actual=7 dimension=1 count=3 nth=4 caller=call severity=high|medium advice="mark_dynamic\(ids, 1\)"
        x = self.tokens(ids)
        return self.norm(x + self.attention(x))


def main():
    model = torch.compile(Model(), backend="aot_eager", dynamic=False)
    for length in (5, 9, 11, 7, 5, 11):
        model(torch.ones(2, length, dtype=torch.int64)).sum().backward()  # mark: call
