"""Two processes on the emulated device: collectives, DDP, FSDP2 and tensor parallel against the CPU.

Run by torchrun; writes what each rank found to ``<argument>/rank<n>.json``.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

import neuron_explorer

Optimizing = Callable[[object], torch.optim.Optimizer]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


def collectives(rank: int, device: torch.device) -> dict[str, object]:
    def mine(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device) + 10 * rank

    found = {}
    for name, op in (("sum", dist.ReduceOp.SUM), ("avg", dist.ReduceOp.AVG), ("max", dist.ReduceOp.MAX)):
        x = mine(1, 2)
        dist.all_reduce(x, op=op)
        found[f"all_reduce {name}"] = x.tolist()
    x = mine(1, 2)
    work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
    work.wait()
    found["asynchronous average"] = x.tolist()
    x = mine(1, 2)
    future = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True).get_future()
    future.wait()
    found["future"] = [future.value()[0].tolist(), str(future.value()[0].device)]
    x = torch.tensor([3, 4], device=device) + rank
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    found["average of integers"] = x.tolist()
    x = mine(1, 2)
    dist.broadcast(x, src=1)
    found["broadcast"] = x.tolist()
    x = mine(1, 2)
    dist.reduce(x, dst=0)
    found["reduce"] = x.tolist() if rank == 0 else None
    parts = [torch.zeros(2, device=device) for _ in range(2)]
    dist.all_gather(parts, mine(1, 2))
    found["all_gather"] = [p.tolist() for p in parts]
    whole = torch.zeros(4, device=device)
    dist.all_gather_into_tensor(whole, mine(1, 2))
    found["all_gather_into_tensor"] = whole.tolist()
    dist.all_gather_into_tensor(whole, mine(3, 4)[None])
    found["all_gather_into_tensor of other dimensions"] = whole.tolist()
    half = torch.zeros(2, device=device)
    dist.reduce_scatter_tensor(half, mine(1, 2, 3, 4), op=dist.ReduceOp.AVG)
    found["reduce_scatter_tensor"] = half.tolist()
    dist.scatter(half, [mine(1, 2), mine(3, 4)] if rank == 0 else None, src=0)
    found["scatter"] = half.tolist()
    gathered = [torch.zeros(2, device=device) for _ in range(2)] if rank == 0 else None
    dist.gather(mine(1, 2), gathered, dst=0)
    found["gather"] = [p.tolist() for p in gathered] if gathered else None
    swapped = torch.zeros(2, device=device)
    dist.all_to_all_single(swapped, mine(1, 2))
    found["all_to_all_single"] = swapped.tolist()
    x = mine(1, 2)
    if rank == 0:
        dist.send(x, dst=1)
    else:
        dist.recv(x, src=0)
    found["send and receive"] = x.tolist()
    x = torch.zeros(3, 2, device=device) + rank
    dist.all_reduce(x[1:])
    found["a view"] = x.tolist()
    try:
        dist.all_reduce(x.t()[1:])
    except RuntimeError as error:
        found["gaps"] = "contiguous" in str(error)
    host = torch.tensor([1.0 + rank])
    dist.all_reduce(host)
    found["host tensor"] = host.tolist()
    objects: list[object] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    found["objects"] = objects
    dist.barrier()
    group = dist.new_group([0, 1])
    x = mine(1, 2)
    dist.all_reduce(x, group=group)
    found["new group"] = x.tolist()
    found["backend"] = dist.get_backend()
    return found


def difference(ours: object, theirs: object) -> float:
    return max((a.detach().cpu() - b.detach()).abs().max().item() for a, b in zip(ours, theirs, strict=True))


def sgd(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.1)


def trained_on_the_cpu(model: Net, data: list[torch.Tensor], optimizing: Optimizing = sgd) -> Net:
    model = copy.deepcopy(model)
    optimizer = optimizing(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        (sum(model(x).pow(2).sum() for x in data) / len(data)).backward()
        optimizer.step()
    return model


def train(model: torch.nn.Module, x: torch.Tensor, optimizing: Optimizing = sgd) -> None:
    optimizer = optimizing(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()


def data_parallel(rank: int, device: torch.device, model: Net, data: list[torch.Tensor]) -> dict[str, float]:
    from torch.nn.parallel import DistributedDataParallel

    expected = trained_on_the_cpu(model, data)
    found = {}
    for views in (False, True):
        copied = copy.deepcopy(model).to(device)
        wrapped = DistributedDataParallel(copied, gradient_as_bucket_view=views)
        train(wrapped, data[rank].to(device))
        found[f"views={views}"] = difference(copied.parameters(), expected.parameters())
    return found


def sharded(rank: int, device: torch.device, model: Net, data: list[torch.Tensor]) -> dict[str, float]:
    """FSDP2: the parameters after training, with each way to step, and the gradients of the last step."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("neuron", (2,))

    def wrapped() -> torch.nn.Module:
        whole = copy.deepcopy(model).to(device)
        for part in (whole.up, whole.down, whole):
            fully_shard(part, mesh=mesh)
        return whole

    ours = wrapped()
    train(ours, data[rank].to(device))
    expected = trained_on_the_cpu(model, data)
    found = {
        "sgd": difference([p.full_tensor() for p in ours.parameters()], expected.parameters()),
        "gradients": difference(
            [p.grad.full_tensor() for p in ours.parameters()], [p.grad for p in expected.parameters()]
        ),
    }
    for way in ("plain", "foreach", "fused"):
        # A large epsilon: a step that follows the gradient, not its sign.
        options = {"lr": 0.1, "weight_decay": 0.1, "eps": 1e-2, "foreach": way == "foreach", "fused": way == "fused"}

        def adamw(parameters: object, options: dict[str, object] = options) -> torch.optim.Optimizer:
            return torch.optim.AdamW(parameters, **options)

        ours = wrapped()
        train(ours, data[rank].to(device), adamw)
        expected = trained_on_the_cpu(model, data, adamw)
        found[f"adamw {way}"] = difference([p.full_tensor() for p in ours.parameters()], expected.parameters())
        found[f"adamw {way} moved"] = difference(expected.parameters(), model.parameters())
    return found


def tensor_parallel(device: torch.device, model: Net, data: list[torch.Tensor]) -> float:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("neuron", (2,))
    wrapped = parallelize_module(
        copy.deepcopy(model).to(device), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    train(wrapped, data[0].to(device))
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in wrapped.parameters()]
    return difference(whole, trained_on_the_cpu(model, data[:1]).parameters())


def main(folder: Path) -> None:
    from neuron_explorer.neuron import emulator

    torch.set_num_threads(1)
    emulator.enable()
    dist.init_process_group("neuron")
    rank = dist.get_rank()
    at_start = str(torch.ones(1, device="neuron").device)
    torch.neuron.set_device(rank)
    device = torch.device("neuron", rank)
    torch.manual_seed(0)
    model, data = Net(), [torch.randn(2, 4) for _ in range(2)]
    found: dict[str, object] = {"collectives": collectives(rank, device) | {"device at the start": at_start}}
    found["data parallel"] = data_parallel(rank, device, model, data)
    found["sharded"] = sharded(rank, device, model, data)
    found["tensor parallel"] = tensor_parallel(device, model, data)
    with neuron_explorer.profile(folder / "trace-{rank}.parquet") as profile:
        for _ in range(3):
            dist.all_reduce(torch.ones(4, device=device), op=dist.ReduceOp.AVG)
            profile.step()
    found["trace"] = str(profile.path)
    (folder / f"rank{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
