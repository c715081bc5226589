"""An LSTM: many ops of one call, and their backward, are on the line of the call."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)  # expect: any
        self.out = nn.Linear(8, 1)  # expect: any

    def forward(self, x):
        y, _ = self.rnn(x)  # expect: any module=rnn
        return self.out(y[:, -1])  # expect: aten::select module=<root>; aten::linear|aten::addmm module=out backward=AddmmBackward0


def main():
    torch.manual_seed(0)
    net = Net()
    x = torch.rand(2, 3, 4)  # expect: aten::rand
    loss = net(x).mean()  # expect: aten::mean x1 backward=MeanBackward0
    loss.backward()  # expect: any
    return loss, [p.grad for p in net.parameters()]
