"""Teaches a small GPT to add two numbers, written as text: ``27+45=072.``

The default of 40 steps makes a small trace and a model that cannot add yet; about 500
steps make one that mostly can.
"""

from __future__ import annotations

import argparse
import random

import torch
from gpt import GPT, Config
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

ALPHABET = "0123456789+=."
QUESTION = len("27+45=")


def encode(text: str) -> Tensor:
    return torch.tensor([ALPHABET.index(character) for character in text])


def decode(ids: Tensor) -> str:
    return "".join(ALPHABET[i] for i in ids.tolist())


class Sums(Dataset[Tensor]):
    """``count`` sums of two numbers below one hundred, drawn anew from ``seed``."""

    def __init__(self, count: int, seed: int) -> None:
        numbers = random.Random(seed)
        self.pairs = [(numbers.randrange(100), numbers.randrange(100)) for _ in range(count)]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Tensor:
        a, b = self.pairs[index]
        return encode(f"{a:02}+{b:02}={a + b:03}.")


def loss_of(model: GPT, batch: Tensor) -> Tensor:
    """Cross entropy of the answer; the question is given, so it does not count."""
    logits = model(batch[:, :-1])[:, QUESTION - 1 :]
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, QUESTION:].flatten())


@torch.no_grad()
def held_out_loss(model: GPT, sums: Sums, batch_size: int, device: str) -> float:
    """The mean loss on sums that were not learnt from, computed by a compiled function.

    The last batch is smaller than the others, so the function is compiled a second time for it.
    """
    compiled = torch.compile(loss_of, backend="neuron" if device == "neuron" else "aot_eager", dynamic=False)
    losses = [compiled(model, batch.to(device)) * len(batch) for batch in DataLoader(sums, batch_size)]
    return torch.stack(losses).sum().item() / len(sums)


def accuracy(model: GPT, sums: Sums, device: str) -> float:
    """The part of ``sums`` that the model gets right."""
    batch = torch.stack([sums[i] for i in range(len(sums))]).to(device)
    answers = model.generate(batch[:, :QUESTION], batch.shape[1] - QUESTION)
    return (answers == batch).all(dim=1).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="Teach a small GPT to add.")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    torch.manual_seed(0)
    model = GPT(Config(vocabulary=len(ALPHABET), context=16)).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(Sums(options.steps * options.batch, seed=1), options.batch)

    question = encode("27+45=")[None].to(options.device)

    for step, batch in enumerate(loader):
        loss = loss_of(model, batch.to(options.device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == options.steps - 1:
            guess = decode(model.generate(question, 4, drawn=True)[0])
            print(f"step {step:4}  loss {loss.item():.3f}  a guess: {guess}")

    unseen = held_out_loss(model, Sums(2 * options.batch + options.batch // 2, seed=3), options.batch, options.device)
    print(f"loss on sums it has not seen: {unseen:.3f}")
    right = accuracy(model, Sums(64, seed=2), options.device)
    print(f"it says {decode(model.generate(question, 4)[0])}  ({right:.0%} of new sums are right)")


if __name__ == "__main__":
    main()
