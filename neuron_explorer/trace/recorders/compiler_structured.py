"""What only the log behind ``TORCH_TRACE`` tells, for ``profile(compile="full")``.

torch builds every payload as soon as somebody listens, which is why this is not the default.
Payloads are not kept: their sizes are, and a few small facts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from neuron_explorer.trace.recorders.torch_compiler_private import structured_log

__all__ = ["StructuredLog", "facts_of"]

_SIZES = (
    "inductor_output_code", "inductor_post_grad_graph", "inductor_pre_grad_graph", "aot_forward_graph",
    "aot_backward_graph", "aot_joint_graph", "aot_inference_graph", "dynamo_output_graph",
)  # fmt: skip
_CACHE_FACTS = ("key", "cache_state", "cache_bypass_reason", "time_saved_ms", "time_saved_ns", "triton_bundler_meta")


class StructuredLog:
    """Calls ``found(name, facts)`` in the thread that compiles."""

    def __init__(self, found: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._handler = _Handler(found)
        self._log: logging.Logger | None = None

    def start(self) -> None:
        """Listen."""
        if self._log is None:
            self._log = structured_log()
            self._log.addHandler(self._handler)

    def stop(self) -> None:
        """Stop listening; other handlers stay as they are."""
        if self._log is not None:
            self._log.removeHandler(self._handler)
            self._log = None


class _Handler(logging.Handler):
    def __init__(self, found: Callable[[str, Mapping[str, Any]], None]) -> None:
        super().__init__(logging.DEBUG)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        try:
            metadata = getattr(record, "metadata", None)
            if isinstance(metadata, dict):
                name, facts = facts_of(metadata, getattr(record, "payload", None))
                if facts:
                    self._found(name, facts)
        except Exception:  # a record of another form
            return


def facts_of(metadata: Mapping[str, Any], payload: Any) -> tuple[str, dict[str, Any]]:
    """Name of a record, and what is kept of it."""
    size = len(payload) if isinstance(payload, str) else -1
    for name in _SIZES:
        if name in metadata:
            facts: dict[str, Any] = {f"{name}_characters": size} if size >= 0 else {}
            return name, facts
    artifact = metadata.get("artifact")
    if isinstance(artifact, Mapping):
        name = str(artifact.get("name", ""))
        if "_cache_" in name and size >= 0:
            return name, {name: _cache_event(payload)}
        return name, {}
    if "dynamo_guards" in metadata and size >= 0:
        guards = json.loads(payload)
        return "dynamo_guards", {"guards_with_source": len(guards)} if isinstance(guards, list) else {}
    return next(iter(metadata), ""), {}


def _cache_event(payload: str) -> dict[str, Any]:
    event = json.loads(payload)
    if not isinstance(event, dict):
        return {}
    return {key: event[key] for key in _CACHE_FACTS if isinstance(event.get(key), (str, int, float))}
