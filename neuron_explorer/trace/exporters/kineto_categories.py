"""What torch.profiler calls the kinds of a trace: category, name, and how the event is written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["Said", "said"]

_CATEGORY: Final = {
    "op": "cpu_op", "autograd": "cpu_op", "launch": "cpu_op", "sync": "cpu_op", "fallback": "cpu_op",
    "device": "kernel", "copy": "gpu_memcpy", "collective": "cpu_op", "link": "gpu_user_annotation",
    "memory": "cpu_instant_event", "graph_break": "cpu_instant_event", "warning": "cpu_instant_event",
}  # fmt: skip
_INSTANTS: Final = ("memory", "graph_break", "warning")
_OPERATORS: Final = ("op", "sync", "copy", "collective", "fallback")
_OVERLOAD: Final = re.compile(r"(\w+::\w+)\.\w+")
_STEP: Final = re.compile(r"step (\d{1,9})")
_OWN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
_BLOCKS: Final = ("allocate", "release", "found")


@dataclass(frozen=True)
class Said:
    """``phase`` letter, category and name of an event in the file; ``head`` and ``own`` are members of its JSON:
    category and name, and in ``args`` the trace's own kind and name."""

    phase: str
    category: str
    name: str
    head: str = ""
    own: str = ""


def said(kind: str, name: str, on_device: bool, category: object) -> Said:
    """How an event is written. ``category``: the source's own word, of a trace that was imported."""
    found = _said(kind, name, on_device, category)
    head = f'"cat":{json.dumps(found.category)},' if found.category else ""
    own = f',"kind":{json.dumps(kind)}'
    if found.name != name:
        own += f',"full_name":{json.dumps(name)}'
    return replace(found, head=f'{head}"name":{json.dumps(found.name)}', own=own)


def _said(kind: str, name: str, on_device: bool, category: object) -> Said:
    if kind == "counter":
        return Said("C", "", name)
    phase = "i" if kind in _INSTANTS else "X"
    own = category if isinstance(category, str) and _OWN.fullmatch(category) else None
    if kind == "step":
        number = _STEP.fullmatch(name)
        return Said(phase, "user_annotation", f"ProfilerStep#{number[1]}" if number else name)
    if kind == "memory":
        return Said(phase, "cpu_instant_event", "[memory]" if name in _BLOCKS else name)
    if kind == "gc":
        return Said(phase, own or "user_annotation", "Python GC")
    if own:
        return Said(phase, own, name)
    if on_device:
        return Said(phase, _on_device(kind), name)
    if kind == "copy":
        return Said(phase, "cpu_op", _plain(name))
    return Said(phase, _CATEGORY.get(kind, "user_annotation"), _plain(name) if kind in _OPERATORS else name)


def _on_device(kind: str) -> str:
    if kind in ("device", "copy", "link"):
        return _CATEGORY[kind]
    return "kernel" if kind == "collective" else "gpu_user_annotation"


def _plain(name: str) -> str:
    """An operator's name as torch's tools know it: without the overload."""
    found = _OVERLOAD.fullmatch(name)
    return found[1] if found else name
