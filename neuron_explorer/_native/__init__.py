"""The native recorder and the emulated device: compiled on first use, cached, loaded.

``load()`` and ``load_emulator()`` return extension modules; ``NativeUnavailable`` says why
there is none and what to do about it.
"""

from __future__ import annotations

from neuron_explorer._native.build import NativeUnavailable, load, load_chrome, load_emulator

__all__ = ["NativeUnavailable", "load", "load_chrome", "load_emulator"]
