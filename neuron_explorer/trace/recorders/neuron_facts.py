"""What TorchNeuron itself says about a run, for the trace's metadata.

Asked at the start (to tell what was there before) and after the recorders have stopped, since
some answers wait for the device.
"""

from __future__ import annotations

from typing import Any

from neuron_explorer.neuron import backend

__all__ = ["NeuronFacts"]

_BEFORE = ("fallback_operators", "executed_operators", "cache_statistics")


class NeuronFacts:
    """The facts of one recording; does nothing where torch_neuronx is not imported."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}

    def start(self) -> None:
        """Remember what the counters say before the recording."""
        if backend.loaded() is None:
            return
        known = backend.facts()
        self._before = {name: known[name].value for name in _BEFORE if known[name].found}

    def document(self) -> dict[str, Any]:
        """The entry ``neuron`` of the metadata, empty without torch_neuronx. Waits for the device.

        Each fact holds ``found``, ``reason``, ``source`` and ``value``; where TorchNeuron
        counts from the start of the process, ``before`` is its value when the recording began.
        """
        if backend.loaded() is None:
            return {}
        entries = {}
        for name, fact in backend.facts(costly=True).items():
            entries[name] = {"found": fact.found, "reason": fact.reason, "source": fact.source, "value": fact.value}
            if name in self._before:
                entries[name]["before"] = self._before[name]
        return {"neuron": {"emulated": backend.emulated(), "facts": entries}}
