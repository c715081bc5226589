"""Makes the helpers beside the tests importable."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location("torch_logs", Path(__file__).with_name("torch_logs.py"))
if "torch_logs" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["torch_logs"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)
