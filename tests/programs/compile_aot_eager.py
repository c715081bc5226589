"""torch.compile(backend="aot_eager"): launches are seen, ops that only a tracer ran are not."""
# program: only=native nomode own_process lenient tracing

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)  # expect: any

    def forward(self, x):
        return torch.sin(self.fc(x)) * 2


def main():
    torch.manual_seed(0)
    torch._dynamo.reset()
    net = Net()
    compiled = torch.compile(net, backend="aot_eager")
    x = torch.rand(2, 4)  # expect: aten::rand
    first = compiled(x)  # expect: Torch-Compiled* kind=launch x1
    second = compiled(x)  # expect: Torch-Compiled* kind=launch x1
    loss = second.sum()  # expect: aten::sum x1
    loss.backward()
    return first, second, net.fc.weight.grad
