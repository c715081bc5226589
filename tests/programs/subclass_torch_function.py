"""A tensor subclass with __torch_function__: the op runs where the subclass calls on."""

import torch


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})  # expect: aten::add x1; aten::mul x1; aten::sin x1; any


def main():
    x = torch.rand(4)  # expect: aten::rand
    y = x.as_subclass(Logged)  # expect: maybe
    z = (y + 1) * 2
    w = torch.sin(z)
    return w.as_subclass(torch.Tensor)  # expect: maybe
