"""An iterable dataset, a collate function of one's own, and workers that stay."""
# program: nomode

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for i in range(2):
            yield torch.full((2,), float(i + 10 * info.id))  # expect: aten::full process=child function=Stream.__iter__


def collate(items):
    return torch.stack(items).sum(0)  # expect: aten::stack process=child; aten::sum process=child function=collate


def main():
    torch.manual_seed(0)
    loader = DataLoader(Stream(), batch_size=2, num_workers=2, collate_fn=collate, persistent_workers=True)
    total = torch.zeros(2)  # expect: aten::zeros process=main
    for _ in range(2):
        for batch in loader:  # expect: any
            total = total + batch  # expect: aten::add x4 process=main
    del loader
    return total
