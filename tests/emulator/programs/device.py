"""The device itself: memory, random numbers, streams, torch.accelerator, the loader."""

import pickle

import torch

DEVICE = "neuron"


def check_memory_is_counted():
    n = torch.neuron
    n.reset_peak_memory_stats()
    before = n.memory_allocated()
    x = torch.empty(1000, dtype=torch.float32, device=DEVICE)
    assert n.memory_allocated() - before == 4000
    view = x[10:]
    del x
    assert n.memory_allocated() - before == 4000  # the view keeps it
    del view
    assert n.memory_allocated() == before
    assert n.max_memory_allocated() == before + 4000
    other = n.memory_allocated(1)
    y = torch.ones(10, device="neuron:1")
    assert n.memory_allocated(1) - other == y.nbytes and n.memory_allocated(0) == before
    stats = n.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes"):
        assert {f"{name}.{part}" for part in ("current", "peak", "allocated", "freed")} <= set(stats)
    assert {"num_alloc_retries", "num_ooms", "num_tensor_frees", "allocation_requests"} <= set(stats)
    n.reset_accumulated_memory_stats()
    assert n.memory_stats()["allocated_bytes.allocated"] == 0
    assert "emulated" in n.memory_summary()
    free, total = n.mem_get_info()
    assert 0 < free <= total


def check_seeds():
    torch.manual_seed(3)
    a = torch.randn(4, device=DEVICE)
    torch.manual_seed(3)
    assert torch.equal(a, torch.randn(4, device=DEVICE))
    generator = torch.Generator(device=DEVICE).manual_seed(3)
    assert generator.device.type == "neuron"
    assert torch.equal(a, torch.randn(4, device=DEVICE, generator=generator))
    torch.manual_seed(3)
    torch.testing.assert_close(a.cpu(), torch.randn(4), rtol=0, atol=0)  # what the CPU draws
    copied = pickle.loads(pickle.dumps(generator))
    assert copied.device == generator.device
    assert torch.equal(*(torch.rand(3, device=DEVICE, generator=g) for g in (generator, copied)))
    state = torch.neuron.get_rng_state()
    a = torch.rand(3, device=DEVICE)
    torch.neuron.set_rng_state(state)
    assert torch.equal(a, torch.rand(3, device=DEVICE))
    torch.manual_seed(1)
    a = torch.nn.functional.dropout(torch.ones(100, device=DEVICE))
    torch.manual_seed(1)
    assert torch.equal(a, torch.nn.functional.dropout(torch.ones(100, device=DEVICE)))
    host = torch.get_rng_state()
    torch.randperm(5, device=DEVICE)
    torch.rand(5, device=DEVICE)
    assert torch.equal(host, torch.get_rng_state())  # a generator of its own
    torch.neuron.manual_seed_all(5)
    assert torch.equal(torch.rand(2, device="neuron:0").cpu(), torch.rand(2, device="neuron:1").cpu())
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        torch.rand(3, device=DEVICE)


def check_accelerator():
    a = torch.accelerator
    assert a.is_available() and a.current_accelerator().type == "neuron" and a.device_count() == 2
    a.set_device_index(1)
    assert torch.empty(1, device=DEVICE).device.index == 1 and torch.neuron.current_device() == 1
    a.set_device_index(0)
    a.synchronize()
    a.set_stream(a.current_stream())
    a.memory_allocated(), a.max_memory_allocated(), a.reset_peak_memory_stats(), a.empty_cache(), a.memory_stats()
    with torch.neuron.device(1):
        assert torch.neuron.current_device() == 1
    assert torch.neuron.current_device() == 0


def check_streams_and_events():
    n = torch.neuron
    stream = torch.Stream(device=DEVICE)
    with stream:
        assert torch.accelerator.current_stream() == stream
    first, second = (torch.Event(device=DEVICE, enable_timing=True) for _ in range(2))
    first.record()
    second.record(stream)
    second.synchronize()
    assert first.elapsed_time(second) >= 0 and first.query() and stream.query()
    stream.wait_event(first)
    stream.wait_stream(torch.accelerator.current_stream())
    mine = n.Stream()
    with n.stream(mine):
        assert n.current_stream() == mine
    assert n.current_stream() == n.default_stream()
    n.Event(enable_timing=True).record(mine)
    start, end = n.Event(enable_timing=True), n.Event(enable_timing=True)
    start.record()
    end.record(mine)
    assert start.elapsed_time(end) >= 0
    assert isinstance(start, n.Event) and not isinstance(mine, n.Event)
    assert mine.record_event(n.Event()) is not None
    mine.record_event()
    torch.ones(3, device=DEVICE).record_stream(mine)
    n.synchronize()


def check_pinned_memory():
    x = torch.ones(3).pin_memory()
    assert x.is_pinned() and x[1:].is_pinned() and not torch.ones(3).is_pinned()
    assert x.to(DEVICE, non_blocking=True).sum().item() == 3
    assert torch.empty(3, pin_memory=True).is_pinned()


def check_loader():
    data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1))
    for workers in (0, 2):
        for (batch,) in torch.utils.data.DataLoader(data, 4, pin_memory=True, num_workers=workers):
            assert batch.is_pinned()
            batch.to(DEVICE, non_blocking=True)


def check_names():
    n = torch.neuron
    names = (
        "is_available device_count current_device set_device get_device_name get_device_properties synchronize Stream "
        "stream current_stream default_stream set_stream Event memory_stats memory_allocated max_memory_allocated "
        "memory_reserved max_memory_reserved reset_peak_memory_stats reset_accumulated_memory_stats memory_summary "
        "empty_cache manual_seed manual_seed_all seed seed_all initial_seed get_rng_state set_rng_state "
        "get_dynamo_metrics reset_dynamo_metrics is_bf16_supported"
    )
    for name in names.split(" "):
        assert callable(getattr(n, name)), name
    assert "emulated" in n.get_device_name() and n.get_device_properties().emulated
    assert n.get_device_properties().total_memory == 12 << 30


def check_the_package():
    import importlib.util

    import torch_neuronx

    assert importlib.util.find_spec("torch_neuronx") is not None
    assert torch_neuronx.is_emulated and "emulated" in torch_neuronx.__version__
    torch_neuronx.clear_op_tracking()
    x = torch.ones(4, device=DEVICE)
    torch.lgamma(x + 1)
    assert torch_neuronx.get_fallback_ops() == ["aten::lgamma.out"]
    assert {"aten::add.Tensor", "aten::lgamma.out"} <= set(torch_neuronx.get_executed_ops())
    before = torch_neuronx._C._get_compilation_cache_stats()
    torch.ones(4, device=DEVICE) + 1
    torch.ones(17, 3, 5, device=DEVICE) + 1
    after = torch_neuronx._C._get_compilation_cache_stats()
    assert after["total_entries"] == before["total_entries"] + 2  # fill and add of a new shape
    assert after["in_memory_hits"] >= before["in_memory_hits"] + 2
    entries = torch_neuronx._C._get_compilation_cache_entries()
    assert len(entries) == after["total_entries"] == len(set(torch_neuronx._C._get_all_cache_keys()))
    assert any(entry["op"] == "aten::add.Tensor" and "[17,3,5]" in entry["signature"] for entry in entries)


def check_autocast():
    layer = torch.nn.Linear(4, 4).to(DEVICE)
    x = torch.randn(2, 4, device=DEVICE)
    with torch.autocast("neuron", torch.bfloat16):
        assert torch.is_autocast_enabled("neuron")
        y = layer(x)
        assert y.dtype == torch.bfloat16
        assert torch.softmax(y, -1).dtype == torch.float32
        torch.nn.functional.cross_entropy(y, torch.zeros(2, dtype=torch.long, device=DEVICE))
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.float32  # another device's autocast
    scaler = torch.amp.GradScaler("neuron")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler.scale(layer(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
