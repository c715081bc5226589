"""Compiled for the device with sizes that vary: what helps elsewhere (mark_dynamic) fails there."""
# program: device=neuron

import torch


def forward(x):  # alert: recompile cause=size source=x.shape[0] expected=5 actual=4 count=2 caller=call advice="Pad `x` in dimension 0.*fixed shapes"
    return (x * 2).relu()


def main():
    compiled = torch.compile(forward, backend="neuron", dynamic=False)
    for size in (3, 5, 4, 3):
        compiled(torch.ones(size, device="neuron"))  # mark: call
