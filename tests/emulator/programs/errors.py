"""What cannot be done ends with the error that a user of CUDA would expect."""

import os

import torch

DEVICE = "neuron"


def refused(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")


def check_devices_that_do_not_exist():
    n = torch.neuron
    x = torch.ones(2, device=DEVICE)
    for call in (
        lambda: torch.ones(1, device="neuron:9"), lambda: x.to("neuron:3"), lambda: n.set_device(5),
        lambda: n.set_device(-1), lambda: n.memory_stats(7), lambda: torch.Generator(device="neuron:5"),
        lambda: torch.accelerator.set_device_index(9), lambda: torch.Stream(device="neuron:9"), lambda: n.Stream(9),
        lambda: torch.accelerator.synchronize("neuron:9"),
    ):  # fmt: skip
        assert "invalid device ordinal" in refused(call)
    assert n.current_device() == 0
    assert "Expected a neuron device" in refused(lambda: n.set_device("cuda"), ValueError)


def check_mixed_devices():
    x, other, host = torch.ones(4, device=DEVICE), torch.ones(4, device="neuron:1"), torch.ones(4)
    square = torch.ones(2, 2, device=DEVICE)
    for call in (
        lambda: x + host, lambda: x + other, lambda: torch.add(x, 1, out=torch.empty(4)), lambda: torch.cat([x, host]),
        lambda: square @ torch.ones(2, 2), lambda: torch.heaviside(x, host), lambda: torch._foreach_add([x], [host]),
        lambda: torch.nn.Linear(4, 2).to(DEVICE)(host), lambda: torch.nn.Linear(4, 2)(x),
        lambda: torch.nn.Conv1d(1, 1, 1).to(DEVICE)(torch.ones(1, 1, 4)),
    ):  # fmt: skip
        assert "same device" in refused(call)
    assert "indices should be" in refused(lambda: host[torch.tensor([1], device=DEVICE)])
    assert "device type for generator" in refused(lambda: torch.rand(3, device=DEVICE, generator=torch.Generator()))
    assert (x + torch.tensor(1.0)).sum().item() == 8  # a number on the host is a number


def check_kinds_of_tensors_that_do_not_exist():
    x = torch.eye(3, device=DEVICE)
    for call in (x.to_sparse, x.to_sparse_csr, x.to_mkldnn, lambda: torch.eye(3).to_sparse().to(DEVICE)):
        refused(call, (RuntimeError, NotImplementedError))
    refused(lambda: x.numpy(), TypeError)
    refused(lambda: torch._lazy_clone(x).add_(1))


def check_wrong_arguments():
    x = torch.ones(2, 3, device=DEVICE)
    assert "cannot be multiplied" in refused(lambda: x @ x)
    refused(lambda: x[torch.tensor([5], device=DEVICE)], IndexError)
    refused(lambda: x.item())
    refused(lambda: torch.ones(2, dtype=torch.long, device=DEVICE).softmax(0), NotImplementedError)


def check_out_of_memory():
    n = torch.neuron
    before = n.memory_stats()["num_ooms"]
    kind = torch.OutOfMemoryError
    said = refused(lambda: torch.empty(1 << 40, device=DEVICE), kind)
    assert "neuron out of memory" in said and "emulated" in said and "GiB" in said
    refused(lambda: torch.empty(0, device=DEVICE).resize_(1 << 42), kind)
    refused(lambda: torch.ones(2, device=DEVICE).untyped_storage().resize_(1 << 42), kind)
    assert n.memory_stats()["num_ooms"] == before + 3
    refused(lambda: torch.ones(1, device=DEVICE).expand(1 << 45) + 1, kind)  # more than the host has
    assert torch.ones(3, device=DEVICE).sum().item() == 3


def check_forking_after_use():
    x = torch.ones(3, device=DEVICE)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        answers = []
        for call in (
            lambda: torch.ones(2, device=DEVICE),
            lambda: x + 1,
            lambda: x[1:],
            x.cpu,
            lambda: torch.neuron.set_device(0),
        ):
            try:
                call()
                answers.append("done")
            except RuntimeError as error:
                answers.append("refused" if "'spawn' start method" in str(error) else str(error))
        answers.append(str(torch.ones(2).sum().item()))  # the host still works
        torch.manual_seed(1)
        os.write(there, " ".join(answers).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(here, 1000).decode() == "refused refused refused refused refused 2.0"
    assert (x + 1).sum().item() == 6  # the parent goes on


def check_enabling_again():
    from neuron_explorer.neuron import emulator

    assert emulator.enable(devices=7) is emulator.enabled()
    assert torch.neuron.device_count() == 2


def check_memory_that_was_taken_away():
    x = torch.ones(4, device=DEVICE)
    part = x[2:]
    x.untyped_storage().resize_(8)
    for call in (lambda: x + 1, x.cpu, lambda: torch.lgamma(x), lambda: part.add_(1), lambda: x.copy_(torch.ones(4))):
        assert "memory of a tensor is gone" in refused(call)
    assert (x[:2] + 1).sum().item() == 4
    x.untyped_storage().resize_(16)
    assert x.fill_(2).sum().item() == 8
