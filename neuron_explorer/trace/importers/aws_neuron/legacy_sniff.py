"""Whether a file is the JSON of an older version: a device profile or ``system_profile.json``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

__all__ = ["is_legacy"]

_HEAD: Final = 256 << 10
_OWN: Final = re.compile(
    rb'"(?:compiler_opcode|dma_queue|ticks_per_nanosec|neuroncore_cycle_count|mm_arithmetic_intensity|ntff_version|'
    rb'lnc_idx|device_mem_usage|tensor_engine_active_time|nc_mem_usage|neff_header|bir_instruction_name|'
    rb'queue_type|dma_rings_spill_bytes|layer_summary)"\s*:'
)
_GROUP: Final = re.compile(rb'"group"\s*:\s*"(?:nrt-nc-|framework-)')


def is_legacy(path: Path) -> bool:
    """By the beginning and the end of the text. Never raises."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or b'"traceEvents"' in head:
                return False
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _HEAD))
            text = head + file.read(_HEAD)
    except (OSError, ValueError):
        return False
    return len(set(_OWN.findall(text))) >= 2 or _GROUP.search(text) is not None
