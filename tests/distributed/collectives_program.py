"""Every way to communicate, on a 2×n mesh, recorded from a moment after the groups were made.

Run by torchrun: ``collectives_program.py FOLDER BACKEND``. Rank r's trace is ``FOLDER/rank<r>.parquet``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

import neuron_explorer


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


def plain(rank: int, device: torch.device) -> None:
    x = torch.ones(4, device=device)
    work = dist.all_reduce(x, async_op=True)  # LINE: handle
    work.wait()  # LINE: waits
    dist.all_gather([torch.zeros(4, device=device) for _ in range(dist.get_world_size())], x)
    dist.barrier()
    if rank == 0:
        dist.send(x, 1)
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
        dist.recv(x, 0)
    pair = dist.new_group([0, 1], group_desc="the first two")
    if rank < 2:
        dist.broadcast(x, 0, group=pair)
        dist.destroy_process_group(pair)


def coalesced(device: torch.device) -> None:
    x, y = torch.ones(4, device=device), torch.ones(8, device=device)
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(x)
        dist.all_reduce(y)
    manager.wait()


def data_parallel(device: torch.device) -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(Net().to(device))
    loss = model(torch.ones(2, 4, device=device)).sum()
    loss.backward()  # LINE: backward


def parallel(mesh: object, device: torch.device) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = Net().to(device)
    parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    for part in (model.up, model.down, model):
        fully_shard(part, mesh=mesh["dp"])
    model(torch.ones(2, 4, device=device)).sum().backward()


def main(folder: Path, backend: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(1)
    device = torch.device("cpu")
    if backend == "neuron":
        from neuron_explorer.neuron import emulator

        emulator.enable()
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    if backend == "neuron":
        torch.neuron.set_device(rank)
        device = torch.device("neuron", rank)
    mesh = init_device_mesh(device.type, (2, size // 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    dist.all_reduce(torch.ones(1, device=device))
    dist.all_reduce(torch.ones(1, device=device))
    with neuron_explorer.profile(folder / f"rank{rank}.parquet") as profile:
        for _ in range(2):
            plain(rank, device)
            coalesced(device)
            data_parallel(device)
            parallel(mesh, device)
            profile.step()
        result = torch.ones(2, device=device)
        dist.all_reduce(result)
        assert result.tolist() == [size, size]
        dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
