"""Whether a text was written by torch.profiler."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_kineto"]

_KEYS: Final = re.compile(
    rb'"(?:deviceProperties|distributedInfo|baseTimeNanoseconds|cupti_version|with_stack|record_shapes|traceName)"\s*:'
)
_CATEGORY: Final = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|operator|user_annotation|gpu_user_annotation|gpu_memcpy|gpu_memset|python_function|'
    rb'cpu_instant_event|ac2g|fwdbwd|(?:cuda|hip|xpu|mtia|privateuse1|glow)_(?:runtime|driver)|mtia_ccp_events)"',
    re.IGNORECASE,
)
_OLD_CATEGORY: Final = re.compile(rb'"cat"\s*:\s*"(?:Operator|Runtime|Kernel|Memcpy)"')
_ENTRY: Final = re.compile(rb'"External id"|"Trace iteration"|"name"\s*:\s*"(?:aten::|ncclKernel|autograd::)')


def is_kineto(head: bytes) -> bool:
    """By the beginning of the unpacked text of what is known to be a trace in JSON."""
    if not head:
        return False
    if _KEYS.search(head) or _CATEGORY.search(head):
        return True
    return bool(_OLD_CATEGORY.search(head) or (b'"kernel"' in head and _ENTRY.search(head)))
