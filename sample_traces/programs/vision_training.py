"""Trains a small convolutional network on images that two worker processes draw."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset[tuple[Tensor, int]]):
    """Noisy images, 1 x 24 x 24, of a horizontal (0) or a vertical (1) bar."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = torch.Generator().manual_seed(index)
        image = torch.randn(1, 24, 24, generator=noise) * 0.3
        place, vertical = index % 20, index % 2
        if vertical:
            image[:, :, place : place + 3] += 1
        else:
            image[:, place : place + 3] += 1
        return image, vertical


def block(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(block(1, 8), block(8, 16), block(16, 32), nn.Flatten(), nn.Linear(32 * 9, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Shapes(16 * 12), batch_size=16, num_workers=2)
    right = 0
    for images, kinds in loader:
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = int((scores.argmax(1) == kinds).sum())
    print(f"{right} of 16 right in the last batch")


if __name__ == "__main__":
    main()
