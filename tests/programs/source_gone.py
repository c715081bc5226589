"""A module is imported, its file deleted, and only then its functions run."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import torch

TEXT = """\
def vanish(x):  # begin: vanished_module.py

    return x.tanh()  # expect: aten::tanh x1 function=vanish
"""  # end


def load():
    with tempfile.TemporaryDirectory() as there:
        path = Path(there) / "vanished_module.py"
        path.write_text(TEXT)
        spec = importlib.util.spec_from_file_location("vanished_module", path)
        module = importlib.util.module_from_spec(spec)
        keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            spec.loader.exec_module(module)
        finally:
            sys.dont_write_bytecode = keep
    return module


def main():
    x = torch.rand(4)  # expect: aten::rand
    return load().vanish(x)
