"""__enter__, __exit__, contextlib and record_function ranges."""

import contextlib

import torch
from torch.profiler import record_function


class Centered:
    def __init__(self, x):
        self.x = x

    def __enter__(self):
        self.mean = self.x.mean()  # expect: aten::mean x1 function=Centered.__enter__
        return self.x - self.mean  # expect: aten::sub x1

    def __exit__(self, *exc):
        self.restored = self.x + self.mean  # expect: aten::add x1 function=Centered.__exit__


@contextlib.contextmanager
def scaled(x):
    y = x * 2  # expect: aten::mul x1 function=scaled
    yield y
    y.div_(2)  # expect: aten::div_ x1 function=scaled


def main():
    x = torch.rand(4)  # expect: aten::rand
    with Centered(x) as c:
        d = c.sin()  # expect: aten::sin x1 function=main
    with scaled(d) as e:
        f = e.cos()  # expect: aten::cos x1 function=main
    with record_function("my_range"):  # expect: my_range kind=range only=native
        g = f.exp()  # expect: aten::exp x1
    return c, d, e, f, g
