"""``import torch_neuronx`` in a program that has not imported torch yet.

The real package imports torch. The emulated one appears when torch is imported; so where
nobody did, asking for it does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PACKAGE = "torch_neuronx"


def offer_package() -> None:
    """From now on ``import torch_neuronx`` imports torch first."""
    sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != PACKAGE or "torch" in sys.modules:
            return None
        importlib.import_module("torch")  # whose import switches the device on
        return getattr(sys.modules.get(PACKAGE), "__spec__", None)
