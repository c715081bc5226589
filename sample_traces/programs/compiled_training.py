"""A compiled network learns to tell which of two numbers is larger, with three habits that cost compilations.

The last batch of an epoch is smaller, a print breaks the graph, and the rate of the noise is a
Python number that changes with each epoch.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.into = nn.Linear(2, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.out = nn.Linear(width, 1)

    def forward(self, x: Tensor, noise: float) -> Tensor:
        hidden = self.into(x) * (1 + noise)
        if self.training:
            print(end="")
        return self.out(self.blocks(hidden)).squeeze(-1)


def main() -> None:
    torch.manual_seed(0)
    x = torch.rand(176, 2)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > x[:, 1]).float()), batch_size=32)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
    compiled = torch.compile(model, dynamic=False)
    for epoch in range(3):
        for inputs, larger in loader:
            logits = compiled(inputs, 0.1 * epoch)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, larger)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    model.eval()
    with torch.no_grad():
        right = ((compiled(x, 0.0) > 0) == (x[:, 0] > x[:, 1])).float().mean().item()
    print(f"{right:.0%} are right")


if __name__ == "__main__":
    main()
