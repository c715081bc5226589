"""Waits for the DataLoader: what torch already says, and what it does not.

Every iterator of `torch.utils.data.DataLoader` wraps its `__next__` in a range called
`enumerate(DataLoader)#<iterator class>.__next__`; the recorder sees it like any other range
and the conversion gives it the kind `data_wait`. So nothing is patched, and a program that
compiles around a loader compiles the same.

What the range says differs: with worker processes it is the time the training thread waited
for a batch that was not ready; without workers it is the time the training thread spent
making the batch, and the operators inside it are part of it.

Not seen, because it happens outside that range: the start of the workers in
`iter(loader)` (once per epoch without `persistent_workers`), the copy to pinned memory (its
own thread), and loaders that are not torch's.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["LIMITS", "is_data_wait", "who_works"]

_PREFIX = "enumerate(DataLoader)#"
_SUFFIX = ".__next__"

LIMITS = "batches from torch's DataLoader; the start of worker processes, pinning and other loaders are not seen"


def is_data_wait(name: str) -> bool:
    """Whether a range of this name is the wait for, or the making of, a batch."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def who_works(name: str) -> Literal["workers", "this thread"]:
    """Whether the time was spent waiting for worker processes or making the batch right here."""
    return "workers" if "MultiProcessing" in name else "this thread"
