"""A training loop with nothing wrong: compiled once, and silent."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.drop(self.inner(x).relu()))


def main(step):
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model, backend="aot_eager")
    for _ in range(5):
        loss = compiled(torch.randn(8, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step()
