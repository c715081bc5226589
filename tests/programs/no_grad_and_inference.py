"""no_grad, inference_mode and set_grad_enabled: no backward, same lines."""

import torch


@torch.inference_mode()
def infer(x):
    return x.exp()  # expect: aten::exp x1 function=infer


def main():
    torch.manual_seed(0)
    w = torch.rand(4, requires_grad=True)  # expect: aten::rand
    with torch.no_grad():
        a = w * 2  # expect: aten::mul x1
        w.add_(1)  # expect: aten::add_ x1
    with torch.inference_mode():
        b = w.sin()  # expect: aten::sin x1
    c = infer(w)
    with torch.set_grad_enabled(False):
        d = w.cos()  # expect: aten::cos x1
    e = (w.detach() * 3).sum()  # expect: aten::mul; aten::sum; any
    f = w.tanh()  # expect: aten::tanh x1 backward=TanhBackward0
    f.sum().backward()  # expect: aten::sum x1 backward=SumBackward0
    return a, b.clone(), c.clone(), d, e, w.grad  # expect: aten::clone
