"""A model in train and in eval mode, in turn: two compilations, and no more."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):  # alert: recompile cause=module_state source=self.training|self.drop.training expected=True actual=False count=1 nth=2 caller=evaluate severity=low advice="two graphs"
        return self.drop(self.inner(x))


def main():
    model = Model()
    compiled = torch.compile(model, backend="eager")
    for _ in range(3):
        model.train()
        compiled(torch.ones(2, 4)).sum().backward()
        model.eval()
        compiled(torch.ones(2, 4))  # mark: evaluate
