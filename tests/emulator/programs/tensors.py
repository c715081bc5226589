"""Tensors: shapes, views, copies, dtypes, saving."""

import copy
import io
import pickle

import torch

DEVICE = "neuron"


def same(a, b):
    torch.testing.assert_close(a.cpu(), b)


def check_non_contiguous():
    x = torch.randn(4, 5, 6)
    y = x.to(DEVICE)
    same(y.permute(2, 0, 1)[::2] * 2, x.permute(2, 0, 1)[::2] * 2)
    same(y.transpose(0, 2).contiguous(), x.transpose(0, 2).contiguous())
    same(y[None].expand(2, 4, 5, 6), x.expand(2, 4, 5, 6))
    assert x.transpose(0, 1).to(DEVICE).stride() == x.transpose(0, 1).stride()
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).to(DEVICE)
    assert image.is_contiguous(memory_format=torch.channels_last)


def check_zero_size():
    x = torch.empty(0, 3, device=DEVICE)
    assert (x + 1).shape == (0, 3)
    assert x.sum().item() == 0
    assert torch.cat([x, torch.ones(2, 3, device=DEVICE)]).shape == (2, 3)
    assert (x @ torch.ones(3, 2, device=DEVICE)).shape == (0, 2)
    assert "size=(0, 3)" in repr(x)
    assert torch.empty(0, device=DEVICE).resize_(3).fill_(1).sum().item() == 3


def check_views_share_memory():
    x = torch.zeros(4, 4, device=DEVICE)
    x[1].fill_(2)
    x[:, 2] += 1
    assert x.sum().item() == 12
    x.view(16)[0] = 9
    assert x[0, 0].item() == 9
    views = [
        x.unfold(0, 2, 1), x.unsqueeze(0), x.split(2)[0], x.chunk(2)[1], x.narrow(0, 1, 2), x.t(), x.diagonal(),
        x.as_strided((2,), (5,)), x.movedim(0, 1), x.real, x.detach(), x[None, ..., 1], x.view(torch.int32),
    ]  # fmt: skip
    for view in views:
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def check_complex_views():
    c = torch.ones(3, dtype=torch.complex64, device=DEVICE)
    c.real.fill_(5)
    c.imag.fill_(1)
    assert torch.view_as_real(c).shape == (3, 2)
    assert c.conj().is_conj()
    assert c.conj().imag.sum().item() == -3
    assert (c.conj() * c).real.sum().item() == 78
    assert c.conj().clone().imag.sum().item() == -3


def check_out_that_resizes():
    out = torch.empty(0, device=DEVICE)
    torch.add(torch.ones(3, device=DEVICE), 1, out=out)  # native
    assert out.tolist() == [2, 2, 2]
    out = torch.empty(0, device=DEVICE)
    torch.lgamma(torch.ones(300, device=DEVICE), out=out)  # fallback
    assert out.shape == (300,) and out.device.type == "neuron"
    values, places = torch.empty(0, device=DEVICE), torch.empty(0, dtype=torch.long, device=DEVICE)
    torch.sort(torch.tensor([3.0, 1.0, 2.0], device=DEVICE), out=(values, places))
    assert values.tolist() == [1, 2, 3] and places.tolist() == [1, 2, 0]


def check_save_and_load():
    x = torch.randn(3, 4, device="neuron:1")
    file = io.BytesIO()
    torch.save({"x": x, "part": x[1:]}, file)
    file.seek(0)
    back = torch.load(file)
    assert back["x"].device == torch.device("neuron:1")
    back["x"].zero_()
    assert back["part"].sum().item() == 0  # still one storage
    for where, index in (("cpu", None), ("neuron:0", 0)):
        file.seek(0)
        assert torch.load(file, map_location=where)["x"].device.index == index
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location="neuron").device.type == "neuron"
    weight = torch.nn.Parameter(torch.ones(2, device=DEVICE))
    again = pickle.loads(pickle.dumps(weight))
    assert again.requires_grad and again.device.type == "neuron"


def check_deepcopy():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).to(DEVICE)
    other = copy.deepcopy(model)
    assert other[0].weight.device.type == "neuron"
    other[0].weight.data.zero_()
    assert model[0].weight.abs().sum().item() > 0
    x = torch.ones(3, device=DEVICE)
    whole, part = copy.deepcopy([x, x[1:]])
    whole.zero_()
    assert part.sum().item() == 0 and x.sum().item() == 3


def check_between_devices():
    a = torch.randn(3, device="neuron:0")
    b = a.to("neuron:1")
    assert b.device.index == 1 and torch.equal(a.cpu(), b.cpu())
    torch.empty(3, device="neuron:1").copy_(a)
    a.copy_(torch.arange(3))
    column = torch.empty(3, 3)[:, 0]
    column.copy_(a)
    assert column.tolist() == [0, 1, 2] and a.dtype == torch.float32
    layer = torch.nn.Linear(2, 2).to("neuron:1")
    layer(torch.ones(1, 2, device="neuron:1")).sum().backward()
    assert layer.weight.grad.device.index == 1


def check_indexing():
    x = torch.arange(10.0, device=DEVICE)
    places = torch.tensor([1, 2])
    assert x[places].tolist() == [1, 2]  # indices on the host, as on CUDA
    x[places.to(DEVICE)] = 5
    x[x > 6] = 0
    x.masked_fill_(x == 5, 1)
    x.index_add_(0, places.to(DEVICE), torch.ones(2, device=DEVICE))
    assert x.tolist() == [0, 2, 2, 3, 4, 1, 6, 0, 0, 0]
    assert torch.nonzero(x).shape == (6, 1)
    assert bool(x[0] == 0) and float(x[3]) == 3.0


def check_printing():
    x = torch.randn(3, device=DEVICE)
    assert "device='neuron:0'" in repr(x)
    assert "bfloat16" in repr(x.bfloat16())
    assert "..." in repr(torch.ones(2000, device=DEVICE))
    assert f"{torch.ones((), device=DEVICE):.2f}" == "1.00"


def check_methods_and_default_device():
    assert torch.ones(2).neuron().is_neuron
    assert torch.ones(2).neuron("neuron:1").device.index == 1
    assert torch.nn.Linear(1, 1).neuron().weight.is_neuron
    with torch.device("neuron"):
        assert torch.nn.Linear(1, 1).weight.is_neuron
    assert torch.ones(2, device=DEVICE).numpy(force=True).sum() == 2


def check_storages():
    x = torch.ones(4, device=DEVICE)
    x.untyped_storage().resize_(400)
    assert x.untyped_storage().nbytes() == 400 and x.sum().item() == 4
    storage = torch.UntypedStorage(16, device=DEVICE)
    assert storage.device.type == "neuron" and storage.cpu().device.type == "cpu"
    x.set_(torch.ones(3, device=DEVICE).untyped_storage(), 0, (3,), (1,))
    assert x.shape == (3,)
    assert torch._efficientzerotensor((3,), device=DEVICE).add(torch.ones(3, device=DEVICE)).sum().item() == 3


def check_transforms():
    x = torch.randn(3, 4, device=DEVICE)

    def f(v):
        return (v**2).sum()

    same(torch.vmap(torch.func.grad(f))(x), x.cpu() * 2)
    torch.func.jvp(f, (x,), (x,))
    w = torch.ones(2, 2, device=DEVICE, requires_grad=True)
    (gradient,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    gradient.sum().backward()
    assert w.grad[0, 0].item() == 6
    with torch.inference_mode():
        y = torch.ones(3, device=DEVICE) * 2
        y[1:].mul_(2)
        assert y.tolist() == [2, 4, 4]
