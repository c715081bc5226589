"""Names inside archives."""

from __future__ import annotations

import re
from typing import Final

from .contents import Bounds

__all__ = ["leads_out"]

_DRIVE: Final = re.compile(r"[A-Za-z]:")


def leads_out(name: str, bounds: Bounds) -> bool:
    """Whether it would name a file outside of the folder that the archive is unpacked to, or no file at all."""
    parts = name.replace("\\", "/").split("/")
    return (
        not name or "\0" in name or len(name) > bounds.name or name.startswith(("/", "\\"))
        or ".." in parts or bool(_DRIVE.match(name))
    )  # fmt: skip
