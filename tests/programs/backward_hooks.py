"""Hooks that run inside backward: their ops are on their own lines, in phase backward."""

import torch
from torch import nn


def tensor_hook(grad):
    return grad * 2  # expect: aten::mul x1 function=tensor_hook phase=backward


def module_hook(module, grad_input, grad_output):
    return (grad_input[0].neg(),)  # expect: aten::neg x1 function=module_hook phase=backward


def accumulated(parameter):
    parameter.grad.clamp_(-1, 1)  # expect: aten::clamp_ x2 function=accumulated phase=backward


def node_hook(grad_inputs, grad_outputs):
    return tuple(None if g is None else g.tanh() for g in grad_inputs)  # expect: aten::tanh x1 phase=backward


def main():
    torch.manual_seed(0)
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)  # expect: any
    second.register_full_backward_hook(module_hook)
    for module in (first, second):
        module.weight.register_post_accumulate_grad_hook(accumulated)
    x = torch.rand(2, 4)  # expect: aten::rand
    h = first(x)  # expect: aten::linear|aten::mm backward=MmBackward0
    h.register_hook(tensor_hook)
    s = second(h)  # expect: aten::linear|aten::mm backward=MmBackward0; any
    p = s.sin()  # expect: aten::sin x1 backward=SinBackward0
    p.grad_fn.register_hook(node_hook)
    loss = p.sum()  # expect: aten::sum x1 backward=SumBackward0
    loss.backward()  # expect: any
    return p, first.weight.grad, second.weight.grad
