"""Trains on several ranks, of which one misbehaves. Run by torchrun.

``run_of_ranks_program.py WAY DIRECTORY [TROUBLE…]``, where WAY is ``mesh`` (2×2: tensor parallel and FSDP2 on the CPU),
``ddp`` (data parallel on the emulated device) or ``fsdp`` (FSDP2 on the CPU). Each trouble is that of one rank:
``slow``, ``compiles``, ``killed``, ``other``.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import neuron_explorer

STEPS = 8
SLOW, COMPILES = 1, 2
WIDE = 700
KILLED_IN = 4


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).relu())


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def slow_down(device: torch.device) -> None:
    wide = torch.ones(WIDE, WIDE, device=device)
    for _ in range(3):
        wide = wide @ wide  # LINE: slow


def build(way: str, device: torch.device) -> torch.nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Net().to(device)
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if way == "mesh":
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        mesh = init_device_mesh(device.type, (2, 2), mesh_dim_names=("dp", "tp"))
        for layer in model.layers:
            parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        shards = mesh["dp"]
    else:
        shards = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("fsdp",))
    for part in (*model.layers, model):
        fully_shard(part, mesh=shards)
    return model


def main(way: str, directory: str, troubles: set[str]) -> None:
    torch.set_num_threads(1)
    device = torch.device("cpu")
    if way == "ddp":
        from neuron_explorer.neuron import emulator

        emulator.enable()
    dist.init_process_group("neuron" if way == "ddp" else "gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    if way == "ddp":
        torch.neuron.set_device(rank)
        device = torch.device("neuron", rank)
    model = build(way, device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with neuron_explorer.profile(directory) as profile:
        for step in range(STEPS):
            if "slow" in troubles and rank == SLOW:
                slow_down(device)
            if "killed" in troubles and rank == SLOW and step == KILLED_IN:
                os.kill(os.getpid(), signal.SIGKILL)
            if "compiles" in troubles:
                compiled(torch.ones(4 if step == 5 and rank == COMPILES else 3))  # LINE: compiles
            optimizer.zero_grad()
            model(torch.ones(2, 16, device=device)).sum().backward()  # LINE: model
            optimizer.step()
            total = torch.ones(1, device=device)
            dist.all_reduce(total)  # LINE: total
            if "other" in troubles and step == STEPS - 1:
                numbers = torch.ones(4, device=device)
                # Nobody waits for them: they never end.
                if rank == 1:
                    dist.broadcast(numbers, 0, async_op=True)  # LINE: other
                else:
                    dist.all_reduce(numbers, async_op=True)  # LINE: usual
            profile.step()
    if "other" in troubles:
        os._exit(0)  # leaving the group would wait for them
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], set(sys.argv[3:]))
