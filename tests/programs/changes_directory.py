"""The working directory changes while the program runs; files keep their names."""

import os
import tempfile

import torch


def main():
    x = torch.rand(4)  # expect: aten::rand
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as there:
        os.chdir(there)
        try:
            y = x.sin()  # expect: aten::sin x1
        finally:
            os.chdir(before)
    return y + 1  # expect: aten::add x1
