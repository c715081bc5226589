"""torch.compile(backend="neuron")."""

import copy
import warnings

import torch
import torch_neuronx

DEVICE = "neuron"


def function(x):
    return (x * 2).relu().sum()


def several_shapes(**options):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="neuron", **options)
    return [compiled(torch.ones(length, 4, device=DEVICE)).item() for length in (3, 5, 7)]


def refused(call):
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("it was not refused")


def check_forward_and_backward():
    torch.neuron.reset_dynamo_metrics()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    ours = copy.deepcopy(model).to(DEVICE)
    compiled = torch.compile(ours, backend="neuron", fullgraph=True, options={"model_name": "small"})
    x = torch.randn(3, 4)
    model(x).sum().backward()
    compiled(x.to(DEVICE)).sum().backward()
    for p, q in zip(model.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad.cpu())
    metrics = torch.neuron.get_dynamo_metrics()
    assert [m.graph_name for m in metrics] == ["small_0_forward", "small_1_backward"]
    assert all(m.graph_node_count > 0 and not m.has_collectives for m in metrics)


def check_one_graph_is_one_artifact():
    torch._dynamo.reset()
    x = torch.ones(11, 13, device=DEVICE)
    compiled = torch.compile(lambda v: (v * 3).relu() + 5, backend="neuron")
    before = torch_neuronx._C._get_compilation_cache_stats()
    for _ in range(3):
        compiled(x)
    after = torch_neuronx._C._get_compilation_cache_stats()
    assert after["total_entries"] == before["total_entries"] + 1
    assert after["in_memory_hits"] == before["in_memory_hits"] + 2


def check_the_device_selects_its_backend():
    torch._dynamo.reset()
    torch.neuron.reset_dynamo_metrics()
    model = torch.nn.Linear(4, 2).to(DEVICE)
    compiled = torch.compile(model)
    compiled(torch.ones(3, 4, device=DEVICE)).sum().backward()
    assert [m.graph_name.split("_")[-1] for m in torch.neuron.get_dynamo_metrics()] == ["forward", "backward"]
    torch._dynamo.reset()
    assert "NCC_EMOD025" in refused(lambda: [torch.compile(function)(torch.ones(n, 4, device=DEVICE)) for n in (3, 5)])


def check_the_device_selects_its_backend_for_what_is_made_on_it():
    torch._dynamo.reset()
    before = len(torch_neuronx.get_dynamo_metrics())
    assert torch.compile(lambda factor: torch.arange(3, device=DEVICE) * factor)(2).tolist() == [0, 2, 4]
    assert len(torch_neuronx.get_dynamo_metrics()) == before + 1


def check_dynamic_shapes():
    assert "dynamic=True" in refused(lambda: several_shapes(dynamic=True))
    said = refused(several_shapes)
    assert "NCC_EMOD025" in said and "dynamic=False" in said
    assert several_shapes(dynamic=False) == [24, 40, 56]
    torch.neuron.reset_dynamo_metrics()
    assert several_shapes(options={"dynamic": "specialise"}) == [24, 40, 56]
    assert len({m.graph_id for m in torch.neuron.get_dynamo_metrics()}) == 3  # one for each shape


def check_specialised_training():
    torch._dynamo.reset()
    model = torch.nn.Linear(4, 2).to(DEVICE)
    compiled = torch.compile(model, backend="neuron", options={"dynamic": "specialise"})
    for length in (2, 3, 4, 3):
        compiled(torch.ones(length, 4, device=DEVICE)).sum().backward()
    assert model.weight.grad[0, 0].item() == 12


def check_graph_breaks():
    torch._dynamo.reset()

    def broken(x):
        x = x * 2
        if x.sum().item() > 0:
            x = x + 1
        return x.relu()

    assert torch.compile(broken, backend="neuron")(torch.ones(3, device=DEVICE)).tolist() == [3, 3, 3]
    torch._dynamo.reset()
    assert refused(lambda: torch.compile(broken, backend="neuron", fullgraph=True)(torch.ones(3, device=DEVICE)))


def check_mode_and_options():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        several_shapes(dynamic=False, mode="max-autotune")
    assert any("mode" in str(warning.message) for warning in said)
    assert "unknown options" in refused(lambda: several_shapes(options={"colour": 1}))


def check_random_numbers():
    torch._dynamo.reset()
    compiled = torch.compile(lambda v: torch.nn.functional.dropout(v, 0.5), backend="neuron")
    assert compiled(torch.ones(3, device=DEVICE)).is_neuron


def check_recomputing_draws_the_same():
    """Compiled, with activations that are computed again: attention and dropout, as without."""
    torch._dynamo.reset()

    def attend(x):
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.nn.functional.dropout(y.sin(), 0.5).sin()

    def gradient(function):
        torch.manual_seed(3)
        x = torch.ones(1, 1, 4, 8).cumsum(2).to(DEVICE).requires_grad_()
        function(x).pow(2).sum().backward()
        return x.grad.cpu()

    checkpoint = torch.utils.checkpoint.checkpoint
    compiled = torch.compile(lambda x: checkpoint(attend, x, use_reentrant=False), backend="neuron")
    torch.testing.assert_close(gradient(compiled), gradient(attend))
