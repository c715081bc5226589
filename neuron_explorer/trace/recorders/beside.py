"""The small recorders that run beside the recorder of operators, as one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuron_explorer.trace.recorders.backend import Backend
from neuron_explorer.trace.recorders.capabilities import capabilities
from neuron_explorer.trace.recorders.collective_waits import CollectiveWaits
from neuron_explorer.trace.recorders.compiler import compiler_of
from neuron_explorer.trace.recorders.context_switches import ContextSwitches, unavailable
from neuron_explorer.trace.recorders.custom_operators import CustomOperators
from neuron_explorer.trace.recorders.device_events import DeviceEvents
from neuron_explorer.trace.recorders.gc import GarbageCollections
from neuron_explorer.trace.recorders.process_groups import ProcessGroups
from neuron_explorer.trace.recorders.sync import Synchronisations
from neuron_explorer.trace.settings import Settings

__all__ = ["SmallRecorders"]


class SmallRecorders:
    """Garbage collections, waits for the device and its executions, operators that the program
    registers, compilations, context switches."""

    def __init__(self, settings: Settings, session: Mapping[str, Any], spool: Path, backend: Backend) -> None:
        self._settings = settings
        self._recorder = str(session["recorder"])
        self._device = DeviceEvents()
        self._sync = Synchronisations(backend)
        self._custom = CustomOperators()
        self._groups = ProcessGroups()
        self._waits = CollectiveWaits(backend)
        self._held = getattr(backend, "held", None)
        self._compiler = compiler_of(settings, session, spool, backend)
        self._switches = None if unavailable() else ContextSwitches(backend)
        self._others: list[Any] = [GarbageCollections(backend), self._sync, self._custom, self._waits, self._groups]
        if self._compiler is not None:
            self._others.append(self._compiler)

    def start(self) -> None:
        """Begin."""
        self._device.start()
        for recorder in self._others:
            recorder.start()
        if self._switches is not None:
            self._switches.start()

    def step(self) -> None:
        """A step ends: before its mark, since what is counted belongs to it."""
        if self._held is not None:
            self._held.step()
        if self._switches is not None:
            self._switches.sample()

    def find_groups(self) -> bool:
        """Whether there are other process groups than at the last look; they are observed from here on."""
        self._waits.start()
        return self._groups.find()

    def distributed(self) -> dict[str, Any]:
        """The process groups so far, and this process's place in the launch."""
        return self._groups.document()

    def find_device(self) -> bool:
        """Whether an accelerator came into use since the start, and is observed from here on."""
        if self._sync.started:
            return False
        self._sync.start()
        if self._sync.started:
            self._device.start()
        return self._sync.started

    def pause(self) -> None:
        """Record nothing."""
        if self._switches is not None:
            self._switches.sample()
        if self._compiler is not None:
            self._compiler.pause()

    def resume(self) -> None:
        """Record again."""
        if self._compiler is not None:
            self._compiler.resume()
        if self._switches is not None:
            self._switches.start()

    def finish_counting(self) -> None:
        """The last reading of what is only sampled."""
        if self._held is not None:
            self._held.finish()
        if self._switches is not None:
            self._switches.stop()

    def stop(self, keep_in: Path | None = None) -> None:
        """End. What the device did is kept in ``keep_in`` (None: nowhere)."""
        for recorder in self._others:
            recorder.stop()
        self._device.stop(keep_in)

    def custom_operators(self) -> dict[str, Any]:
        """What the program registered so far."""
        return self._custom.document()

    def capabilities(self) -> dict[str, dict[str, Any]]:
        """What this recording could observe, as far as is known by now."""
        self.find_groups()
        return capabilities(
            recorder=self._recorder,
            stacks=self._settings.stacks,
            shapes=self._settings.shapes,
            tensors=self._settings.tensors,
            memory=self._memory(),
            sync_started=self._sync.started,
            switches=self._switches is not None,
            device_time=self._device.reason,
            compiler=self._compiler,
            distributed=self._groups.known,
            waits_started=self._waits.started,
        )

    def _memory(self) -> str | None:
        if not self._settings.memory:
            return None
        return "" if self._held is None else self._held.limits()

    @property
    def device_reason(self) -> str:
        """Why executions on the device are not observed, "" where they are."""
        return self._device.reason
