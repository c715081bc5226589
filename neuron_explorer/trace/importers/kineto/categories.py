"""Categories of torch.profiler's events, of all its dialects, and what names add to them."""

from __future__ import annotations

import re
from typing import Final

from ..chrome_json.kinds import Dialect
from ..chrome_json.records import KINETO_KEYS

__all__ = ["KINETO", "KNOWN", "RUNTIMES", "device_type"]

RUNTIMES: Final = frozenset({
    "cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime", "mtia_runtime", "glow_runtime", "xpu_runtime",
    "xpu_driver", "privateuse1_runtime", "privateuse1_driver", "hpu_runtime",
})  # fmt: skip
"""Calls on the host that make a device work."""

_CATEGORIES: Final = {
    "cpu_op": "op", "operator": "op", "hpu_op": "op",
    "user_annotation": "range", "gpu_user_annotation": "range", "overhead": "range", "annotation": "range",
    "cuda_profiler_range": "range", "mtia_insight": "range", "mtia_workload": "range", "external_correlation": "",
    "kernel": "device", "concurrent_kernel": "device", "gpu_memset": "device", "memset": "device",
    "mtia_ccp_events": "device", "mtia_kernel": "device", "privateuse1_kernel": "device", "xpu_kernel": "device",
    "gpu_memcpy": "copy", "memcpy": "copy", "privateuse1_memcpy": "copy",
    "cuda_sync": "sync", "collective_comm": "collective",
    "python_function": "frame", "cpu_instant_event": "range", "trace": "",
    **dict.fromkeys(RUNTIMES, "range"),
}  # fmt: skip
KNOWN: Final = frozenset(c for c in _CATEGORIES if c not in ("kernel", "trace", "operator", "runtime", "annotation"))
"""Categories that nothing but torch.profiler writes."""

_ON_DEVICE: Final = frozenset({
    "kernel", "concurrent_kernel", "gpu_memset", "memset", "gpu_memcpy", "memcpy", "gpu_user_annotation",
    "mtia_ccp_events", "mtia_kernel", "mtia_workload", "mtia_insight", "cuda_sync", "privateuse1_kernel",
    "privateuse1_memcpy", "xpu_kernel", "cuda_profiler_range",
})  # fmt: skip

_STARTS_WORK: Final = re.compile(r"launch|memcpy|memset|enqueue|submit|execut|runfunction", re.IGNORECASE)
_WAITS: Final = re.compile(r"synchroni[sz]e|\bwait|hostwait", re.IGNORECASE)
_NODE: Final = re.compile(r"(?:torch::autograd::)?\w*(?:Backward\d*|AccumulateGrad|GraphRoot)")
_COMMUNICATION: Final = re.compile(r"(?:nccl|gloo|mpi|ucc|xccl|hccl|rccl|neuron):\w+")
_COLLECTIVE_KERNEL: Final = re.compile(
    r"(?:void )?\w*(?:nccl|rccl|oneccl|hccl)(?:Dev)?_?(?:Kernel|Function)", re.IGNORECASE
)
_STEP: Final = re.compile(r"ProfilerStep\s*#\s*(\d{1,9})$")


def step_number(name: str) -> int:
    """The number of a step of the profiler's schedule, -1 where it is none."""
    found = _STEP.match(name)
    return int(found[1]) if found else -1


def _by_name(category: str, name: str) -> str | None:
    if category in ("cpu_op", "operator"):
        return _operator(name)
    if category in RUNTIMES:
        if _WAITS.search(name):
            return "sync"
        return "launch" if _STARTS_WORK.search(name) else None
    if category in ("user_annotation", "annotation"):
        return _annotation(name)
    if category in ("kernel", "concurrent_kernel") and _COLLECTIVE_KERNEL.match(name):
        return "collective"
    if name == "[memory]":
        return "memory"
    if category == "" and (name.startswith("Iteration Start: ") or name == "Record Window End"):
        return ""
    return "gc" if name == "Python GC" else None


def _operator(name: str) -> str | None:
    if name.startswith("autograd::engine::") or _NODE.fullmatch(name):
        return "autograd"
    if name == "record_param_comms":
        return "collective"
    if name.startswith("Torch-Compiled Region: "):
        return "launch"
    if name.startswith(("ProfilerStep#", "enumerate(DataLoader)#", "Optimizer.", "## ", "TorchDynamo ")):
        return _annotation(name) or "range"
    if name == "aten::_local_scalar_dense":
        return "sync"
    return None


def _annotation(name: str) -> str | None:
    if _STEP.match(name):
        return "step"
    if name.startswith("enumerate(DataLoader)#"):
        return "data_wait"
    if name.startswith("Torch-Compiled Region: "):
        return "launch"
    return "collective" if _COMMUNICATION.match(name) else None


def device_type(categories: set[str], label: str) -> str:
    """The device that a trace is of, by its categories and by what the profiler calls the device's process."""
    for prefix in ("mtia", "xpu", "hpu"):
        if any(c.startswith(prefix) for c in categories) or label.upper().startswith(prefix.upper()):
            return prefix
    if any(c.startswith("privateuse1") for c in categories):
        return "privateuseone"
    return "cuda"


KINETO: Final = Dialect(
    format="torch.profiler", title="a torch.profiler trace", keys=KINETO_KEYS, category=_CATEGORIES,
    device_categories=_ON_DEVICE, otherwise="range", name=_by_name, skipped_flows=frozenset({"ac2g", "async"}),
)  # fmt: skip
