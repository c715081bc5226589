"""Conv2d, BatchNorm2d, pooling and a loss module of its own."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)  # expect: any
        self.norm = nn.BatchNorm2d(2)  # expect: any
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(2, 3)  # expect: any

    def forward(self, x):
        x = self.conv(x)  # expect: aten::conv2d|aten::convolution module=conv backward=ConvolutionBackward0
        x = self.norm(x)  # expect: aten::batch_norm|aten::native_batch_norm module=norm backward=NativeBatchNormBackward0; any
        x = self.drop(x.relu())  # expect: aten::relu x1 module=<root>; any module=drop
        x = x.mean((2, 3))  # expect: aten::mean x1 module=<root> backward=MeanBackward1
        return self.fc(x)  # expect: aten::linear|aten::addmm module=fc backward=AddmmBackward0


def main():
    torch.manual_seed(0)
    net, criterion = Net(), nn.CrossEntropyLoss()
    x, target = torch.rand(2, 1, 8, 8), torch.tensor([0, 2])  # expect: aten::rand; any
    loss = criterion(net(x), target)  # expect: aten::cross_entropy_loss|aten::_log_softmax backward=NllLossBackward0,LogSoftmaxBackward0
    loss.backward()  # expect: any
    return loss, [p.grad for p in net.parameters()]
