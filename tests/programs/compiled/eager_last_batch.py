"""Eager on the device, with a last batch that is smaller."""
# program: device=neuron

import torch
from torch.utils.data import DataLoader, TensorDataset


def main(step):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (x,) in DataLoader(TensorDataset(torch.randn(36, 4)), batch_size=8):
        loss = model(x.to("neuron")).square().mean()  # alert: shape_churn cause=ragged severity=low|medium advice="drop_last=True"
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step()
