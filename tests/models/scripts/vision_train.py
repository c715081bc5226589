"""A small convolutional network, trained from a DataLoader with two worker processes."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        image = torch.full((3, 16, 16), index / 16)
        return image + torch.arange(16.0) / 16, index % 4


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(Block(3, 8), nn.MaxPool2d(2), Block(8, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = self.features(x)
        return self.head(x.mean((2, 3)))


def build():
    return Net()


def main():
    torch.manual_seed(0)
    model = build()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        loader = DataLoader(Images(), batch_size=4, shuffle=True, num_workers=2)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    main()
