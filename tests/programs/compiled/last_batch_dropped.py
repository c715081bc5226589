"""The same loop with drop_last=True."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def loss_of(model, x, y):
    return (model(x) - y).square().mean()


def main(step):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    compiled = torch.compile(loss_of, backend="aot_eager")
    for x, y in DataLoader(TensorDataset(torch.randn(36, 4), torch.randn(36, 1)), batch_size=8, drop_last=True):
        compiled(model, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        step()
