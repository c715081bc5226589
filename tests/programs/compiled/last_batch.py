"""A training loop whose last batch is smaller."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def loss_of(model, x, y):  # alert: recompile cause=size source=x.shape[0] expected=8 actual=4 dimension=0 count=1 nth=2 caller=call severity=low|medium advice="drop_last=True"
    return (model(x) - y).square().mean()


def main(step):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    compiled = torch.compile(loss_of, backend="aot_eager")
    for x, y in DataLoader(TensorDataset(torch.randn(36, 4), torch.randn(36, 1)), batch_size=8):
        compiled(model, x, y).backward()  # mark: call
        optimizer.step()
        optimizer.zero_grad()
        step()
