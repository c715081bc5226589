"""What an operator of torch.distributed is: its operation, group, bytes, dtype, from its name and signature."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from .item_bytes import ITEM_BYTES

OPERATIONS: Final = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all",
    "barrier", "send", "recv",
)  # fmt: skip
"""One word for every variant of an operation."""

GROUP_MARK: Final = "group:"
"""How the recorders write a process group among an operator's arguments."""

WAIT_PREFIX: Final = "wait: "
"""How the name of a wait for a collective begins; the operation follows."""

_LIBRARIES: Final = ("c10d::", "_c10d_functional::", "_c10d_functional_autograd::")
# The first that fits decides: `all_reduce` before `reduce`.
_WORDS: Final = (
    ("allreduce", "all_reduce"), ("all_reduce", "all_reduce"), ("allgather", "all_gather"),
    ("all_gather", "all_gather"), ("reduce_scatter", "reduce_scatter"), ("broadcast", "broadcast"),
    ("alltoall", "all_to_all"), ("all_to_all", "all_to_all"), ("barrier", "barrier"),
    ("monitored_barrier", "barrier"), ("reduce", "reduce"), ("gather", "gather"), ("scatter", "scatter"),
    ("send", "send"), ("recv", "recv"),
)  # fmt: skip
_MORE: Final = re.compile(r"^(\d+) more(?:, (\d+) elements)?$")
_LONGEST: Final = 1 << 16


def operation_of(name: str) -> str:
    """The operation of an operator or of a backend's own range (`gloo:all_reduce`); "" for anything else."""
    library = next((prefix for prefix in (*_LIBRARIES, "gloo:") if name.startswith(prefix)), "")
    rest = name[len(library) :].lstrip("_") if library else ""
    return next((operation for word, operation in _WORDS if rest.startswith(word)), "")


def is_wait(name: str) -> bool:
    """Whether an operator waits for a functional collective."""
    return name.startswith(_LIBRARIES[1:]) and "::wait_tensor" in name


@dataclass(frozen=True)
class CollectiveFacts:
    """Facts of one signature. ``bytes`` is -1 when unknown; ``peer``: rank in the group, -1 for none."""

    operation: str
    group: str
    bytes: int
    dtype: str
    asynchronous: bool
    peer: int


def facts_of(name: str, signature: tuple[str, ...], group_size: int | None) -> CollectiveFacts:
    """From the texts of a signature: shapes, strides, dtypes, arguments, device.

    ``bytes``: what this rank contributes or receives, whichever is larger. ``group_size``: of the
    group that the operator names, where it is known.
    """
    operation = operation_of(name)
    shapes, dtypes, arguments = (_list(signature[i]) for i in (0, 2, 3))
    functional = name.startswith(_LIBRARIES[1:])
    texts = [a for a in arguments if isinstance(a, str)]
    if functional:
        group = texts[-1] if texts else ""
    else:
        group = next((t[len(GROUP_MARK) :] for t in texts if t.startswith(GROUP_MARK)), "")
    sizes = [_bytes(s, d) for s, d in zip(shapes, dtypes, strict=False) if s is not None and d is not None]
    largest = -1 if not sizes or min(sizes) < 0 else max(sizes)
    numbers = [a for a in arguments if isinstance(a, int) and not isinstance(a, bool)]
    if operation == "all_gather" and largest > 0 and (functional or _nested(name)):
        ranks = numbers[0] if functional and numbers else group_size
        largest = largest * ranks if ranks else -1
    elif operation in ("reduce_scatter", "gather", "scatter") and _nested(name) and largest > 0 and group_size:
        largest *= group_size  # the list of a tensor for each rank is not described
    asynchronous = functional or any(a is True for a in arguments)
    peer = numbers[0] if operation in ("send", "recv") and "any_source" not in name and numbers else -1
    moved = 0 if operation == "barrier" else largest
    return CollectiveFacts(operation, group, moved, _dtype(dtypes), asynchronous, peer)


def _nested(name: str) -> bool:
    """Whether the operator takes a list with a list of a tensor for each rank."""
    return name.split("::", 1)[-1].split(".", 1)[0] in ("allgather_", "reduce_scatter_", "gather_", "scatter_")


def _bytes(shape: Any, dtype: Any) -> int:
    """Bytes of a tensor or of a list of tensors; -1 when unknown."""
    if not isinstance(shape, list):
        return -1
    if all(isinstance(n, int) for n in shape) and isinstance(dtype, str):
        return _elements(shape) * ITEM_BYTES.get(dtype, 1)
    kinds = dtype if isinstance(dtype, list) else []
    total, last = 0, 1
    for i, entry in enumerate(shape[:_LONGEST]):
        if isinstance(entry, list):
            last = ITEM_BYTES.get(str(kinds[i]) if i < len(kinds) else "", 1)
            total += _elements(entry) * last
        elif isinstance(entry, str):
            more = _MORE.match(entry)
            if more is None or more[2] is None:
                return -1
            total += int(more[2]) * last
    return min(total, (1 << 62))


def _elements(shape: list[Any]) -> int:
    product = 1
    for n in shape:
        product *= max(0, n) if isinstance(n, int) else 0
    return min(product, 1 << 58)


def _dtype(dtypes: list[Any]) -> str:
    for entry in dtypes:
        found = next((e for e in entry if isinstance(e, str)), None) if isinstance(entry, list) else entry
        if isinstance(found, str):
            return found
    return ""


def _list(text: str) -> list[Any]:
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []
