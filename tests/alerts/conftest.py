"""Makes the harness modules beside the tests importable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["native", "twin"])
def recorder(request: pytest.FixtureRequest) -> str:
    """Each recorder's name; skips where the native one cannot be built."""
    if request.param == "native":
        from neuron_explorer import _native

        try:
            _native.load()
        except _native.NativeUnavailable as error:
            pytest.skip(f"no native recorder: {error.reason}")
    return request.param
