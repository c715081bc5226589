"""ModuleList and ModuleDict are never called; their children keep the whole path."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False)  # expect: any
        self.out = nn.Linear(width, width, bias=False)  # expect: any

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # expect: aten::linear|aten::mm module=layers.0.attn.qkv; aten::linear|aten::mm module=layers.1.attn.qkv; aten::chunk|aten::split module=layers.0.attn; aten::chunk|aten::split module=layers.1.attn
        weights = torch.softmax(  # expect: aten::softmax|aten::_softmax module=layers.0.attn; aten::softmax|aten::_softmax module=layers.1.attn
            q @ k.transpose(-1, -2),  # expect: aten::matmul|aten::mm|aten::bmm module=layers.0.attn; aten::transpose module=layers.1.attn
            dim=-1,
        )
        return self.out(weights @ v)  # expect: aten::linear|aten::mm module=layers.0.attn.out; aten::linear|aten::mm module=layers.1.attn.out; aten::matmul|aten::mm|aten::bmm module=layers.1.attn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = Attention(width)
        self.branches = nn.ModuleDict(
            {
                "up": nn.Linear(width, width),  # expect: any
                "gate": nn.Sequential(nn.Linear(width, width), nn.SiLU()),  # expect: any
            }
        )

    def forward(self, x):
        x = x + self.attn(x)  # expect: aten::add x1 module=layers.0; aten::add x1 module=layers.1
        up = self.branches["up"](x)  # expect: aten::linear|aten::addmm module=layers.0.branches.up; aten::linear|aten::addmm module=layers.1.branches.up
        gate = self.branches["gate"](x)  # expect: aten::linear|aten::addmm module=layers.0.branches.gate.0; aten::silu x1 module=layers.0.branches.gate.1; aten::silu x1 module=layers.1.branches.gate.1
        return up * gate  # expect: aten::mul x1 module=layers.0; aten::mul x1 module=layers.1


class Model(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, 2)  # expect: any

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = x.mean(0)  # expect: aten::mean x1 module=<root>
        return self.head(x)  # expect: aten::linear|aten::addmm module=head


def main():
    torch.manual_seed(0)
    model = Model()
    x = torch.rand(4, 8)  # expect: aten::rand module=-
    return model(x)
