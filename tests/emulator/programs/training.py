"""Models train to what they train to on the CPU."""

import copy
import warnings

import torch
from torch import nn

DEVICE = "neuron"


def alike(on_cpu, on_device, inputs, tolerance=1e-4):
    """Outputs and the gradients of parameters agree."""
    a = on_cpu(*inputs)
    b = on_device(*(i.to(DEVICE) for i in inputs))
    a, b = (a[0], b[0]) if isinstance(a, tuple) else (a, b)
    assert b.device.type == "neuron"
    torch.testing.assert_close(a, b.cpu(), rtol=tolerance, atol=tolerance)
    a.pow(2).sum().backward()
    b.pow(2).sum().backward()
    for p, q in zip(on_cpu.parameters(), on_device.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad.cpu(), rtol=tolerance, atol=tolerance)


def check_layers():
    torch.manual_seed(0)
    image, sequence = torch.randn(1, 4, 6, 6), torch.randn(3, 2, 4)
    for layer, x in (
        (nn.Conv1d(2, 3, 2), torch.randn(1, 2, 6)), (nn.Conv2d(4, 4, 3, groups=2, bias=False), image),
        (nn.ConvTranspose2d(4, 3, 2), image), (nn.Conv3d(1, 2, 2), torch.randn(1, 1, 3, 3, 3)),
        (nn.Sequential(nn.Conv2d(4, 2, 1), nn.MaxPool2d(2), nn.AvgPool2d(2)), image), (nn.GroupNorm(2, 4), image),
        (nn.BatchNorm2d(4), image), (nn.Embedding(5, 3), torch.tensor([[1, 2]])), (nn.LayerNorm(4), sequence),
        (nn.GRU(4, 5, num_layers=2), sequence), (nn.RNN(4, 5), sequence), (nn.LSTM(4, 5, bidirectional=True), sequence),
        (nn.TransformerEncoderLayer(4, 2, 8, dropout=0), sequence), (nn.EmbeddingBag(5, 3), torch.tensor([[1, 2]])),
    ):  # fmt: skip
        try:
            alike(layer, copy.deepcopy(layer).to(DEVICE), (x,))
        except Exception as error:
            raise AssertionError(f"{layer}: {error}") from error


def check_group_norm_of_channels_last():
    torch.manual_seed(0)
    layer = nn.GroupNorm(2, 4)
    x = torch.randn(2, 4, 3, 5).to(memory_format=torch.channels_last).requires_grad_()
    ours, y = copy.deepcopy(layer).to(DEVICE), x.detach().to(DEVICE).requires_grad_()
    layer(x).pow(2).sum().backward()
    ours(y).pow(2).sum().backward()
    torch.testing.assert_close(x.grad, y.grad.cpu(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad, ours.weight.grad.cpu(), rtol=1e-4, atol=1e-4)


def check_counts_of_integers():
    """As on every accelerator; the CPU's `histc` knows floating point only."""
    values = [0, 3, 3, 7, 100, 50]
    for dtype in (torch.uint8, torch.int32, torch.int64):
        for bins, low, high in ((5, 0, 0), (4, 0, 10), (3, 3, 3), (7, 0, 7)):
            counts = torch.histc(torch.tensor(values, dtype=dtype, device=DEVICE), bins, low, high)
            expected = torch.histc(torch.tensor(values, dtype=torch.float32), bins, low, high)
            assert counts.dtype == dtype and counts.tolist() == expected.tolist()
    wide = torch.tensor([2**62, -(2**62), 0], device=DEVICE)
    assert torch.histc(wide, 4).tolist() == [1, 0, 1, 1]
    out = torch.empty(0, dtype=torch.int32, device=DEVICE)
    assert torch.histc(torch.ones(3, dtype=torch.int32, device=DEVICE), 2, out=out).tolist() == [0, 3] == out.tolist()
    assert torch.histc(torch.empty(0, dtype=torch.int32, device=DEVICE), 2).tolist() == [0, 0]


def check_memory_after_training():
    """Each step gives back all it took; what stays is the model, its gradients and two states of AdamW."""
    before = torch.neuron.memory_allocated()
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(24, 3)).to(DEVICE)
    size = sum(p.nbytes for p in model.parameters())
    assert torch.neuron.memory_allocated() - before == size
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 2, 8, device=DEVICE)).pow(2).sum().backward()
        optimizer.step()
        seen.append(torch.neuron.memory_allocated() - before)
    assert len(set(seen)) == 1 and 4 * size <= seen[0] < 4 * size + 200, (seen, size)
    del model, optimizer
    assert torch.neuron.memory_allocated() == before


def check_results_lie_as_torch_describes_them():
    """Graphs are compiled for the layout that torch describes without running an operator."""
    fused = torch.randn(2, 8, 3 * 32, device=DEVICE)
    query, key, value = (part.view(2, 8, 4, 8).transpose(1, 2) for part in fused.split(32, -1))
    assert nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).is_contiguous()
    image = torch.randn(2, 3, 8, 8, device=DEVICE).to(memory_format=torch.channels_last)
    assert nn.Conv2d(3, 4, 3).to(DEVICE)(image).is_contiguous()
    x = torch.zeros(2, 3, device=DEVICE).t()
    assert x.resize_(3, 2).stride() == (1, 3)


def check_losses_do_not_warn():
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    for loss in (nn.functional.mse_loss, nn.functional.smooth_l1_loss, nn.functional.l1_loss):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = loss(a.to(DEVICE), b.to(DEVICE))
        assert value.shape == ()
        torch.testing.assert_close(value.cpu(), loss(a, b))


def check_running_statistics():
    a = nn.BatchNorm1d(3)
    b = copy.deepcopy(a).to(DEVICE)
    x = torch.randn(5, 3)
    a(x), b(x.to(DEVICE))
    assert a.running_mean.abs().sum() > 0
    torch.testing.assert_close(a.running_mean, b.running_mean.cpu())


def check_attention():
    function = nn.functional.scaled_dot_product_attention
    allowed = torch.rand(4, 4) > 0.5
    allowed[:, 0] = True
    for options in ({}, {"is_causal": True}, {"attn_mask": allowed}, {"attn_mask": torch.randn(4, 4)}, {"scale": 0.3}):
        ours = {k: v.to(DEVICE) if torch.is_tensor(v) else v for k, v in options.items()}
        q, k, v = (torch.randn(2, 2, 4, 8, requires_grad=True) for _ in range(3))
        tensors = [t.detach().to(DEVICE).requires_grad_() for t in (q, k, v)]
        a, b = function(q, k, v, **options), function(*tensors, **ours)
        torch.testing.assert_close(a, b.cpu(), rtol=1e-4, atol=1e-5)
        a.pow(2).sum().backward()
        b.pow(2).sum().backward()
        for mine, other in zip((q, k, v), tensors, strict=True):
            torch.testing.assert_close(mine.grad, other.grad.cpu(), rtol=1e-4, atol=1e-5)
    import torch_neuronx

    fused = "aten::_scaled_dot_product_fused_attention_overrideable"
    assert {fused, f"{fused}_backward"} <= set(torch_neuronx.get_executed_ops())
    function(*tensors, dropout_p=0.1).sum().backward()
    few = torch.randn(2, 1, 4, 8, device=DEVICE)
    function(tensors[0], few, few, enable_gqa=True)


def check_optimizers():
    for options in ({"foreach": False}, {"foreach": True}, {"fused": True}, {}):
        for optimizer in (torch.optim.AdamW, torch.optim.SGD):
            torch.manual_seed(0)
            a = nn.Linear(4, 4)
            b = copy.deepcopy(a).to(DEVICE)
            steps = [
                (a, optimizer(a.parameters(), lr=0.1, **options)),
                (b, optimizer(b.parameters(), lr=0.1, **options)),
            ]
            for _ in range(3):
                x = torch.randn(2, 4)
                for model, opt in steps:
                    opt.zero_grad()
                    model(x.to(model.weight.device)).pow(2).sum().backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    opt.step()
            torch.testing.assert_close(a.weight, b.weight.cpu())
            steps[1][1].load_state_dict(steps[1][1].state_dict())


def check_checkpointing():
    from torch.utils.checkpoint import checkpoint

    layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).to(DEVICE)
    x = torch.randn(2, 3, device=DEVICE, requires_grad=True)
    for reentrant in (True, False):
        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()


def check_own_operators():
    """An operator with its own kernel for the device, as kernels for the chip are registered."""

    @torch.library.custom_op("emulated_test::scale", mutates_args=(), device_types="neuron")
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scale.register_autograd(
        lambda ctx, grad: (grad * ctx.by, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
    )
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    torch.ops.emulated_test.scale(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]

    @torch.library.custom_op("emulated_test::host_only", mutates_args=(), device_types="cpu")
    def host_only(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    import torch_neuronx

    assert host_only(x.detach()).tolist() == [2, 2, 2]
    assert "emulated_test::host_only" in torch_neuronx.get_fallback_ops()


def check_parameters_keep_their_identity():
    """Tied weights stay tied, and an optimizer made before the move steps what the model uses."""
    model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8, bias=False))
    model[1].weight = model[0].weight
    weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("neuron")
    assert model[0].weight is weight and model[1].weight is weight and weight.device.type == "neuron"
    before = weight.detach().cpu().clone()
    model(torch.tensor([1, 2], device="neuron")).sum().backward()
    optimizer.step()
    assert not torch.equal(model[1].weight.detach().cpu(), before)
    model.cpu()
    assert model[0].weight is weight and weight.device.type == "cpu"
