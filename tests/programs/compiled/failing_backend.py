"""A backend that fails: the program goes on without the compiler."""

import torch


def backend(graph, inputs):
    raise ValueError("no such instruction: vector.exp2")


def forward(x):  # alert: compile_failed cause=BackendCompilerFailed|ValueError count=1 caller=call severity=medium|high advice="aot_eager"
    return x.exp2()


def main():
    compiled = torch.compile(forward, backend=backend)
    try:
        compiled(torch.ones(3))  # mark: call
    except Exception:
        forward(torch.ones(3))
