"""A module that runs ops while it is imported, from inside a function."""

import importlib
import sys
import tempfile
from pathlib import Path

import torch

TEXT = """\
import torch  # begin: imported_late.py

TABLE = torch.arange(4) * 2  # expect: aten::mul x1 function=<module>; any


def lookup(i):
    return TABLE[i]  # expect: aten::select|aten::index function=lookup
"""  # end


def main():
    with tempfile.TemporaryDirectory() as there:
        (Path(there) / "imported_late.py").write_text(TEXT)
        sys.path.insert(0, there)
        try:
            sys.modules.pop("imported_late", None)
            importlib.invalidate_caches()
            module = importlib.import_module("imported_late")
        finally:
            sys.path.remove(there)
        x = module.lookup(2)
    return x + torch.zeros(())  # expect: aten::zeros; aten::add x1
