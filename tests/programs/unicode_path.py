"""The program lies under a path with spaces and letters of several scripts."""
# program: path="données 数据/модель ñ.py"

import torch


def größe(x):
    return x.sum()  # expect: aten::sum x1 function=größe


class Schicht:
    def vorwärts(self, 入力):
        return 入力 * 2  # expect: aten::mul x1 function=Schicht.vorwärts


def main():
    x = torch.rand(4)  # expect: aten::rand function=main
    return größe(Schicht().vorwärts(x))
