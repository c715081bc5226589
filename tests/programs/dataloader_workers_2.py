# program: nomode
"""A DataLoader with 2 worker process(es): ops in the workers are on the dataset's lines."""

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = torch.full((4,), float(index))  # expect: aten::full x8 process=child function=Squares.__getitem__
        return x * x  # expect: aten::mul x8 process=child


def main():
    torch.manual_seed(0)
    loader = DataLoader(Squares(), batch_size=4, num_workers=2)
    total = torch.zeros(4)  # expect: aten::zeros process=main
    for batch in loader:  # expect: aten::stack process=child; enumerate(DataLoader)* kind=data_wait process=main; any
        total = total + batch.sum(0)  # expect: aten::sum x2 process=main; aten::add x2 process=main
    return total
