"""The native recorder: compiled on first use, cached, loaded.

``load()`` returns the extension module; ``NativeUnavailable`` says why there is none and
what to do about it.
"""

from __future__ import annotations

from neuron_explorer._native.build import NativeUnavailable, load

__all__ = ["NativeUnavailable", "load"]
