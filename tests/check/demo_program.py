"""The demo's training step and its compiled evaluation, small and the same in every run: what this project gates."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import neuron_explorer.demo

sys.path.insert(0, str(Path(neuron_explorer.demo.__file__).parent))
from gpt import GPT, Config
from train import ALPHABET, Sums, held_out_loss, loss_of

BATCH = 8
STEPS = 6


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = GPT(Config(vocabulary=len(ALPHABET), context=16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sums = Sums(BATCH, seed=1)
    batch = torch.stack([sums[i] for i in range(BATCH)])
    for _ in range(STEPS):
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    held_out_loss(model, Sums(2 * BATCH + BATCH // 2, seed=3), BATCH, "cpu")


if __name__ == "__main__":
    main()
