"""Operator calls and who called whom, as arrays.

Calls nest: ``aten::linear`` calls ``aten::addmm``, which calls ``aten::copy_``. Each question
decides which of them speaks for the rest: an event is *covered* when one that encloses it
already gave the answer.

Events with equal texts share a group, so that a rule is applied to each distinct call once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.filters import HOST
from neuron_explorer.analysis.joined import joined_keys
from neuron_explorer.analysis.nesting import Nesting
from neuron_explorer.analysis.read_ahead import read_parts
from neuron_explorer.analysis.scan import coded
from neuron_explorer.analysis.selection import Selection, steps_between
from neuron_explorer.trace.arrays import among, distinct, values_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

MOST_GROUPS: Final = 200_000
"""Distinct calls that are looked at; calls beyond them are counted in ``Calls.left_out``."""

KINDS: Final = ("op", "copy", "sync", "fallback", "launch", "range", "data_wait", "autograd", "compile")

_ACCELERATORS: Final = ("neuron", "cuda", "xpu", "hip")

_GRAPHS: Final = ("CompiledFunction", "CompiledFunctionBackward")

_TEXT: Final = ("kind", "name", "shapes", "dtypes", "arguments", "strides", "device", "file", "function", "phase")
_LONGEST: Final = 8192
_NUMBERS: Final = ("lane", "line", "id", "parent", "start", "duration", "step")
_COLUMNS: Final = (*_TEXT, "period", *_NUMBERS)
_LEVELS: Final = 32
_BLOCK: Final = 1 << 20


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
    """Events of the selection. Arrays have an entry an event, in the order of the file.

    ``group``: position in ``groups``. ``parent``: position of the enclosing event, -1 at the
    top. ``duration``: ns of the host, 0 where the end was not seen. ``left_out``: events beyond ``MOST_GROUPS``.
    Empty where they were not asked for, since each is as large as the trace: ``start``; ``step``: -1 outside any step;
    ``steady``: in a steady step; ``id``: of the event.
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
        current = self._once(self.parent[inner & (self.parent >= 0)])
        while len(current):
            current = current[~found[current]]
            found[current] = True
            above = self.parent[current]
            current = self._once(above[above >= 0])
        return found

    def _once(self, positions: np.ndarray) -> np.ndarray:
        """Each position once."""
        if len(positions) < len(self) >> 6:
            return distinct(positions)
        marked = np.zeros(len(self), bool)
        marked[positions] = True
        return np.flatnonzero(marked)

    def _above(self, flag: np.ndarray) -> np.ndarray:
        """Whether any enclosing event has the flag."""
        found = np.zeros(len(self), bool)
        if not flag.any():
            return found
        # Calls nest a few levels deep: going up costs less than what doubles its reach.
        for begin in range(0, len(self), _BLOCK):
            above = self.parent[begin : begin + _BLOCK]
            asked = np.flatnonzero(above >= 0)
            above = above[asked]
            asked += begin
            for _ in range(_LEVELS):
                there = flag[above]
                found[asked[there]] = True
                above = self.parent[above]
                goes_on = ~there & (above >= 0)
                asked, above = asked[goes_on], above[goes_on]
                if not len(asked):
                    break
            else:
                return found | self._far_above(flag)
        return found

    def _far_above(self, flag: np.ndarray) -> np.ndarray:
        """The same, however deep. Doubles its reach, so that cycles end too."""
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


def load_calls(trace: Trace, selection: Selection, keep: Sequence[str] = ()) -> Calls:
    """The calls of a selection (see ``analysis/selection.py``). ``keep``: what is asked for of start, step, steady
    and id.
    """
    reading = _Reading(selection, steps_between(selection), frozenset(keep), Nesting(trace.rows))
    for table in read_parts(trace, _COLUMNS):
        reading.add(table)
    return reading.done()


@dataclass
class _Reading:
    """Takes the parts of a trace one after the other: what a text says is looked at once for each distinct call."""

    selection: Selection
    between: tuple[int, int] | None
    keep: frozenset[str]
    nesting: Nesting
    known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        """Keep what a part has of the selection."""
        texts = {name: coded(table.column(name)) for name in (*_TEXT, "period")}
        numbers = {name: values_of(table.column(name)) for name in _NUMBERS}
        rows = np.flatnonzero(self._chosen(texts, numbers))
        if not len(rows):
            return
        joined, _ = joined_keys([*(texts[name][0] for name in _TEXT), numbers["line"]], table.num_rows)
        if len(rows) < table.num_rows:
            joined, numbers = joined[rows], {name: values[rows] for name, values in numbers.items()}
        from neuron_explorer.trace.write import integers  # Arrow is loaded late

        encoded = integers(joined, "int64").dictionary_encode()
        own, number = values_of(encoded.indices), len(encoded.dictionary)
        first = np.empty(number, np.int64)
        first[own[::-1]] = np.arange(len(rows) - 1, -1, -1)
        described = [
            [of[code] if code >= 0 else None for code in codes[rows[first]].tolist()]
            for codes, of in (texts[name] for name in _TEXT)
        ]
        group = np.array([
            self._number(key) for key in zip(*described, numbers["line"][first].tolist(), strict=True)
        ], np.int32)[own]  # fmt: skip
        periods, of = texts["period"]
        numbers["steady"] = np.array([*(text == "steady" for text in of), False])[periods[rows]]
        numbers["group"] = group
        duration = np.maximum(numbers["duration"], 0)
        numbers["duration"] = duration if int(duration.max()) >= 1 << 32 else duration.astype(np.uint32)
        self.nesting.add(numbers["id"], numbers["parent"])
        self.parts.append({name: numbers[name] for name in ("group", "duration", *self.keep)})

    def _chosen(self, texts: dict[str, tuple[np.ndarray, list[str]]], numbers: dict[str, np.ndarray]) -> np.ndarray:
        """The rows that ``Selection.where`` and ``KINDS`` pick."""
        chosen = _is(texts["kind"], KINDS)
        chosen &= among(numbers["lane"], np.array(sorted(self.selection.host_lanes), np.int64))
        if self.selection.period == "steady":
            chosen &= _is(texts["period"], ("steady",))
        if self.between is not None:
            chosen &= (numbers["step"] >= self.between[0]) & (numbers["step"] <= self.between[1])
        if phases := self.selection.chosen.phases:
            chosen &= _is(texts["phase"], phases, "other")
        if device := self.selection.chosen.device:
            chosen &= _is(texts["device"], (device,), HOST)
        return chosen

    def _number(self, key: tuple[Any, ...]) -> int:
        found = self.known.get(key)
        if found is None:
            found = len(self.known)
            if found >= 2 * MOST_GROUPS:  # a trace may make up as many as it has events
                return -1
            self.known[key] = found
        return found

    def done(self) -> Calls:
        """All of it. The most frequent groups stay, where there are too many."""
        def column(name: str, dtype: type = np.int64) -> np.ndarray:
            # Each part is let go as soon as it is copied.
            return np.concatenate([np.zeros(0, dtype), *(part.pop(name) for part in self.parts if name in part)])

        group = column("group", np.int32)
        events = np.bincount(group[group >= 0], minlength=len(self.known))
        ranked = np.argsort(-events, kind="stable")[:MOST_GROUPS]
        texts = list(self.known)
        new = np.full(len(texts) + 1, -1, np.int32)
        new[ranked] = np.arange(len(ranked))
        group = new[group]
        kept = None if len(group) == 0 or int(group.min()) >= 0 else group >= 0

        def of(values: np.ndarray) -> np.ndarray:
            return values if kept is None else values[kept]

        def asked(name: str, dtype: type = np.int64) -> np.ndarray:
            return of(column(name, dtype)) if name in self.keep else np.zeros(0, dtype)

        parent = self.nesting.done()
        left_out = 0
        if kept is not None:
            left_out = int((~kept).sum())
            moved = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
            parent = moved[parent[kept]]
        return Calls(
            tuple(_group(texts[at]) for at in ranked.tolist()), of(group), parent, of(column("duration", np.uint32)),
            asked("start"), asked("step"), asked("steady", bool), asked("id"), left_out,
        )  # fmt: skip


def _is(text: tuple[np.ndarray, list[str]], wanted: Sequence[str], otherwise: str = "") -> np.ndarray:
    """Rows whose text is one of ``wanted``; a missing one counts as ``otherwise``."""
    codes, texts = text
    found: np.ndarray = np.array([*(each in wanted for each in texts), otherwise in wanted])[codes]
    return found


def _group(key: tuple[Any, ...]) -> Group:
    kind, name, shapes, dtypes, arguments, strides, device, file, function, phase = (
        None if text is None else text[:_LONGEST] for text in key[:-1]
    )
    return Group(
        kind or "", name or "", shapes, dtypes, arguments, strides, device or "", file or "", function or "",
        phase or "", key[-1] if file else -1,
    )  # fmt: skip
