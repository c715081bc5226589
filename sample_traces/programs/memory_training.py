"""Trains a small network with gradient accumulation, and keeps more memory with each step.

The score of the held-out batch is kept with the graph that made it: every activation of that
forward stays. ``score.item()``, or computing it under ``torch.no_grad()``, would not keep them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, BATCH, STEPS, MICRO_BATCHES = 128, 64, 14, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(4)), nn.Linear(WIDTH, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held_out = torch.randn(BATCH, WIDTH)
    scores: list[Tensor] = []

    for _ in range(STEPS):
        for _ in range(MICRO_BATCHES):
            batch, labels = torch.randn(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
            loss = functional.cross_entropy(model(batch), labels) / MICRO_BATCHES
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scores.append(model(held_out).softmax(dim=1).amax(dim=1).mean())

    print(f"the network is {torch.stack(scores)[-1].item():.0%} sure")


if __name__ == "__main__":
    main()
