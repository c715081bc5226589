"""Lays the demo's files out where the user can read and change them."""

from __future__ import annotations

import shutil
from pathlib import Path

FILES = ("gpt.py", "train.py")


def lay_out(directory: Path) -> Path:
    """Copy the demo's program into ``directory``; returns the script to run.

    A file that is there already is kept: the user may have changed it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if not (directory / name).exists():
            shutil.copyfile(Path(__file__).parent / name, directory / name)
    return directory / "train.py"
