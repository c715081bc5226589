"""A compiled function with a graph break: two launches, and the op between them on its own line."""
# program: only=native nomode own_process lenient tracing

import torch


@torch._dynamo.disable
def outside(x):
    return x.cos()  # expect: aten::cos x2 function=outside


def function(x):
    x = x.sin()
    x = outside(x)
    return x.exp()


def main():
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(function, backend="eager")
    x = torch.rand(4)  # expect: aten::rand
    return compiled(x), compiled(x)
