"""What the Python recorder notes of collectives: number in the group, and which one a wait is for."""

from __future__ import annotations

from typing import Any, Final

from neuron_explorer.trace.collective_facts import GROUP_MARK, is_wait, operation_of
from neuron_explorer.trace.recorders import distributed_private, torch_private

__all__ = ["TwinCollectives", "group_mark"]

_MOST: Final = 1 << 14


def group_mark(value: Any) -> str:
    """How an argument is written that is a process group; "" for any other."""
    group = distributed_private.group_of_argument(value)
    return GROUP_MARK + distributed_private.group_name(group) if group is not None else ""


class TwinCollectives:
    """Counters of the groups of this process, and tensors (by address, never held) under way."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], tuple[int, int]] = {}  # → id of the group, next number
        self._in_flight: dict[int, int] = {}

    def rebase(self) -> None:
        """Ask the backends for their numbers again: collectives were not seen for a while."""
        self._counters = {key: (group, n) for key, (group, n) in self._counters.items() if key[1]}

    def number(self, name: str, values: list[Any]) -> int | None:
        """A record's ``seq``: the number of a collective, for a wait what it waits for; None: neither."""
        if is_wait(name):
            found = [self._in_flight.pop(address, -1) for address in _addresses(values)]
            return max(found, default=-1)
        operation = operation_of(name)
        return self._next(name, operation, values) if operation else None

    def under_way(self, values: list[Any], collective: int) -> None:
        """``collective`` (thread << 32 | record) has begun with these tensors."""
        if len(self._in_flight) >= _MOST:
            self._in_flight.clear()
        self._in_flight.update(dict.fromkeys(_addresses(values), collective))

    def _next(self, name: str, operation: str, values: list[Any]) -> int:
        found = ((i, distributed_private.group_of_argument(v)) for i, v in enumerate(values))
        at, group = next(((i, g) for i, g in found if g is not None), (-1, None))
        if group is None:
            texts = [v for v in values if isinstance(v, str)]
            group = distributed_private.resolve_group(texts[-1]) if texts else None
        if group is None:
            return -1
        pair = ""
        if operation in ("send", "recv"):
            peer = values[at + 1] if 0 <= at < len(values) - 1 and isinstance(values[at + 1], int) else ""
            pair = f"{operation} {peer}"
        key = (distributed_private.group_name(group), pair)
        known = self._counters.get(key)
        if known is not None and known[0] == id(group):
            number = known[1]
        else:
            number = 0 if pair else max(0, distributed_private.sequence_number(group))
        self._counters[key] = (id(group), number + 1)
        return number


def _addresses(values: list[Any]) -> list[int]:
    import torch

    found: list[int] = []
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple):
            pending.extend(value)
        elif type(value) in (torch.Tensor, torch.nn.Parameter):
            found.append(torch_private.data_address(value))
    return [address for address in found if address]
