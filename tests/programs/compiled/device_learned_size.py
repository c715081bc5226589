"""The device's backend without dynamic=False: Dynamo makes the second size dynamic, and that fails."""
# program: device=neuron

import torch


def forward(x):  # alert: recompile cause=size source=x.shape[0] expected=3 actual=4 count=1 caller=call advice="dynamic=False" ; compile_failed count=1 caller=call advice="dynamic=False"
    return (x * 2).relu()


def main():
    compiled = torch.compile(forward, backend="neuron")
    compiled(torch.ones(3, device="neuron"))
    try:
        compiled(torch.ones(4, device="neuron"))  # mark: call
    except Exception:
        forward(torch.ones(4, device="neuron"))
