"""Operator calls and who called whom, as arrays.

Calls nest: ``aten::linear`` calls ``aten::addmm``, which calls ``aten::copy_``. Each question
decides which of them speaks for the rest: an event is *covered* when one that encloses it
already gave the answer.

Events with equal texts share a group, so that a rule is applied to each distinct call once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.selection import Selection, kinds_sql

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_GROUPS: Final = 200_000
"""Distinct calls that are looked at; calls beyond them are counted in ``Calls.left_out``."""

KINDS: Final = ("op", "copy", "sync", "fallback", "launch", "range", "data_wait", "autograd", "compile")

_ACCELERATORS: Final = ("neuron", "cuda", "xpu", "hip")

_GRAPHS: Final = ("CompiledFunction", "CompiledFunctionBackward")

_TEXT: Final = ("kind", "name", "shapes", "dtypes", "arguments", "strides", "device", "file", "function", "phase")
_LONGEST: Final = 8192
_KEY: Final = ", ".join((*(f"coalesce({c}, '')" for c in _TEXT), "line"))


@dataclass(frozen=True)
class Group:
    """What a set of equal calls was: an operator, its arguments and the line that called it."""

    kind: str
    name: str
    shapes: str | None
    dtypes: str | None
    arguments: str | None
    strides: str | None
    device: str
    file: str
    function: str
    phase: str
    line: int


@dataclass(frozen=True)
class Calls:
    """Events of the selection. Arrays have an entry an event, in no particular order.

    ``group``: position in ``groups``. ``parent``: position of the enclosing event, -1 at the
    top. ``duration``: ns of the host, 0 where the end was not seen. ``step``: -1 outside any
    step. ``steady``: in a steady step. ``id``: of the event. ``left_out``: events beyond ``MOST_GROUPS``.
    """

    groups: tuple[Group, ...]
    group: np.ndarray
    parent: np.ndarray
    duration: np.ndarray
    start: np.ndarray
    step: np.ndarray
    steady: np.ndarray
    id: np.ndarray
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.group)

    def where(self, flags: list[bool]) -> np.ndarray:
        """Events whose group has the flag."""
        return np.asarray(flags, bool)[self.group] if len(self.group) else np.zeros(0, bool)

    def covered(self, speaks: np.ndarray) -> np.ndarray:
        """Events inside an event that speaks."""
        return self._above(speaks)

    def encloses(self, inner: np.ndarray) -> np.ndarray:
        """Events around an event of ``inner``."""
        found = np.zeros(len(self), bool)
        current = np.unique(self.parent[inner & (self.parent >= 0)])
        while len(current):
            current = current[~found[current]]
            found[current] = True
            above = self.parent[current]
            current = np.unique(above[above >= 0])
        return found

    def _above(self, flag: np.ndarray) -> np.ndarray:
        """Whether any enclosing event has the flag. Doubles its reach, so that cycles end too."""
        if not len(self):
            return np.zeros(0, bool)
        root = len(self)
        target = np.append(np.where(self.parent >= 0, self.parent, root), root)
        reached = np.append(flag, False)[target]
        for _ in range(32):
            if bool((target == root).all()):
                break
            reached = reached | reached[target]
            target = target[target]
        return reached[:-1]


def on_device(calls: Calls, metadata: Mapping[str, Any]) -> np.ndarray:
    """Events that belong on the device: not the data loader's, and not a host tensor's where the trace can tell."""
    device = metadata.get("device")
    kind = device.get("type") if isinstance(device, Mapping) else None
    stays = calls.where([g.kind == "data_wait" for g in calls.groups])
    chosen = ~(stays | calls.covered(stays))
    if kind in _ACCELERATORS:
        chosen &= calls.where([g.device != "cpu" for g in calls.groups])
    return chosen


def compiled_launches(calls: Calls) -> np.ndarray:
    """Launches of compiled graphs, forward and backward, each once: what is inside ran as part of the graph."""
    graphs = calls.where([g.kind == "launch" or g.name in _GRAPHS for g in calls.groups])
    return graphs & ~calls.covered(graphs)


def load_calls(trace: Trace, selection: Selection) -> Calls:
    """The calls of a selection (see ``analysis/selection.py``)."""
    where = f"{selection.where} AND {kinds_sql(KINDS)}"
    columns = ", ".join(f"left({c}, {_LONGEST}) AS {c}" for c in _TEXT)
    # Grouped by the columns themselves, three times as fast as by their hash.
    table = trace.sql_arrow(
        f"SELECT hash({_KEY}) AS h, {columns}, line FROM (SELECT {', '.join(_TEXT)}, line, count(*) AS n FROM events "
        f"WHERE {where} GROUP BY ALL) ORDER BY n DESC, h LIMIT {MOST_GROUPS}"
    )
    groups = tuple(_group(row) for row in table.to_pylist())
    known = table.column("h").to_numpy()
    events = trace.sql_arrow(
        f'SELECT hash({_KEY}) AS h, id, parent, "start", greatest(duration, 0) AS duration, step, '
        f"coalesce(period = 'steady', FALSE) AS steady FROM events WHERE {where}"
    )
    arrays = {name: events.column(name).to_numpy() for name in ("h", "id", "parent", "start", "duration", "step")}
    steady = events.column("steady").to_pandas().to_numpy(bool) if events.num_rows else np.zeros(0, bool)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], arrays["h"])
    at = np.minimum(at, max(len(known) - 1, 0))
    group = order[at] if len(known) else np.zeros(0, np.int64)
    kept = known[group] == arrays["h"] if len(known) else np.zeros(0, bool)
    ids, parents = arrays["id"][kept], arrays["parent"][kept]
    return Calls(
        groups, group[kept], positions(ids, parents), arrays["duration"][kept], arrays["start"][kept],
        arrays["step"][kept], steady[kept], ids, int((~kept).sum()),
    )  # fmt: skip


def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted id is; -1 where it is not."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    found = order[at]
    return np.where((wanted >= 0) & (ids[found] == wanted), found, -1)


def _group(row: dict[str, Any]) -> Group:
    return Group(
        row["kind"] or "", row["name"] or "", row["shapes"], row["dtypes"], row["arguments"], row["strides"],
        row["device"] or "", row["file"] or "", row["function"] or "", row["phase"] or "",
        row["line"] if row["file"] else -1,
    )  # fmt: skip
