"""Which tensors an event got, and between which dtypes a copy casts."""

from __future__ import annotations

from typing import Any

from neuron_explorer.analysis.detail import detail_of, parsed


def storages(detail: str | None) -> tuple[int, ...]:
    """Storage ids of an operator's tensors, in the order of its arguments; nothing where they were not recorded."""
    tensors = detail_of(detail).get("tensors")
    every = tensors if isinstance(tensors, list) else []
    found = [(t[0], t[1], t[2]) for t in every if isinstance(t, list) and len(t) >= 4 and _whole(t[:3])]
    return tuple(storage for _, _, storage in sorted(found))


def cast_of(dtypes: str | None) -> tuple[str, str] | None:
    """(dtype of the result, dtype of the source) of a ``copy_``; None where the trace does not tell."""
    kinds = parsed(dtypes or "")
    if isinstance(kinds, list) and len(kinds) >= 2 and isinstance(kinds[0], str) and isinstance(kinds[1], str):
        return kinds[0], kinds[1]
    return None


def _whole(values: list[Any]) -> bool:
    return all(isinstance(v, int) and not isinstance(v, bool) for v in values)
