"""torch.func.vmap, grad and jacrev: the function's own lines, forward and backward."""

import torch
from torch.func import grad, jacrev, vmap


def predict(w, x):
    h = torch.dot(w, x)  # expect: any
    return torch.sigmoid(h)  # expect: aten::sigmoid


def loss(w, x, y):
    p = predict(w, x)
    return (p - y) ** 2  # expect: aten::sub; aten::pow


def scaled(x):
    return x.sin() * 2  # expect: aten::sin; aten::mul


def main():
    torch.manual_seed(0)
    w = torch.rand(3)  # expect: aten::rand
    xs, ys = torch.rand(5, 3), torch.rand(5)  # expect: aten::rand
    single = grad(loss)(w, xs[0], ys[0])  # expect: any
    each = vmap(grad(loss), in_dims=(None, 0, 0))(w, xs, ys)  # expect: any
    mapped = vmap(scaled)(xs)  # expect: maybe
    jacobian = jacrev(scaled)(w)  # expect: any
    return single, each, mapped, jacobian
