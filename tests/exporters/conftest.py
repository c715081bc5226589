"""Makes the helper beside the tests importable; what a format makes of a trace."""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neuron_explorer.trace.exporters import export_trace
from neuron_explorer.trace.store import load

spec = importlib.util.spec_from_file_location("export_traces", Path(__file__).with_name("export_traces.py"))
if "export_traces" not in sys.modules:
    module = importlib.util.module_from_spec(spec)
    sys.modules["export_traces"] = module
    spec.loader.exec_module(module)

Exported = Callable[..., Any]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The small trace."""
    from export_traces import EVENTS, made

    return made(tmp_path / "trace.parquet", EVENTS)


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    """``exported(trace, format)``: the text of the file, parsed where it is JSON."""

    def export(trace: Path, format: str, name: str = "out", **options: Any) -> Any:
        target = tmp_path / name
        with load(trace) as opened:
            size = export_trace(opened, format, target, overwrite=True, **options)
        assert size == target.stat().st_size
        data = target.read_bytes()
        data = gzip.decompress(data) if name.endswith(".gz") else data
        if format in ("arrow", "perfetto"):
            return data
        return json.loads(data) if format in ("kineto", "chrome", "speedscope") else data.decode()

    return export
