"""Fits a small network of many layers; ``--fused`` is the optimisation.

Without it the optimizer updates one parameter at a time, with a dozen operators for each.
With it one fused operator updates all of them.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


def build(depth: int = 12, width: int = 48) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False, fused=options.fused)
    inputs = torch.randn(options.steps, 32, 48)
    targets = inputs.square().mean(-1, keepdim=True)
    history = []

    for step in range(options.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[step]), targets[step])
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print(f"loss {history[0]:.3f} to {history[-1]:.3f}")


if __name__ == "__main__":
    main()
