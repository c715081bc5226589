"""A DataLoader without workers and the default collate function."""

import torch
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        x = torch.full((3,), float(index))  # expect: aten::full x6 function=Pairs.__getitem__
        return {"x": x, "y": index}


def main():
    torch.manual_seed(0)
    total = torch.zeros(3)  # expect: aten::zeros
    for batch in DataLoader(Pairs(), batch_size=3):  # expect: aten::stack x2; enumerate(DataLoader)* kind=data_wait only=native; any
        total += batch["x"].sum(0) * batch["y"].sum()  # expect: aten::sum x4; aten::mul x2; aten::add_ x2
    return total
