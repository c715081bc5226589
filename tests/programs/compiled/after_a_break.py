"""What goes on after a graph break compiles again as well: its call is that of the whole function."""

import torch


def forward(x, noise):  # alert: recompile cause=size source=x.shape[0] expected=4 actual=2 count=1 nth=2 caller=call ; recompile cause=python_value source=noise expected=0.0 actual=0.5 count=1 nth=3 caller=call
    x = x * (1 + noise)
    print(end="")  # alert: graph_break count=3 function=forward caller=call advice="print" ; recompile cause=size source=x.shape[0] expected=4 actual=2 count=1 nth=2 caller=call
    return x.cos()


def main():
    compiled = torch.compile(forward, backend="eager", dynamic=False)
    for size, noise in ((4, 0.0), (2, 0.0), (2, 0.5)):
        compiled(torch.ones(size), noise)  # mark: call
