"""Makes the helpers beside the tests importable."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

for name in ("torch_logs", "chrome_traces", "neuron_tables"):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if name not in sys.modules:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
