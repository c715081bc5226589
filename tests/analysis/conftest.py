"""Fixtures of the analysis tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)

if "compile_traces" not in sys.modules:
    _SPEC = importlib.util.spec_from_file_location("compile_traces", _HERE / "compile_traces.py")
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["compile_traces"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)

if "device_traces" not in sys.modules:
    _SPEC = importlib.util.spec_from_file_location("device_traces", _HERE / "device_traces.py")
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["device_traces"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)
