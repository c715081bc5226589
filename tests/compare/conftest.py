"""Hand-built traces: tests/synthetic.py, loaded by path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)
