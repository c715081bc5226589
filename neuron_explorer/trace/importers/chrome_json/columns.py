"""The third pass, second half: rows as columns of the trace."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from ... import schema
from ...text import TextTable
from ...write import Coded
from .ancestors import outermost
from .blocks import Blocks, memory_device
from .coded import CodedById, CodedByKey
from .details import Details
from .frames import Frames
from .kinds import CODE, KINDS, Kinds
from .layout import Layout
from .nested import Window
from .own import Own
from .records import MISSING, Picked
from .signatures import Signatures
from .tally import ATTRIBUTIONS, Tally

__all__ = ["Columns"]

_LAUNCH, _MEMORY = CODE["launch"], CODE["memory"]
_COMPILED: Final = re.compile(r"Torch-Compiled Region: (\S{1,100})")


class Columns:
    """Makes columns, window after window. ``start``: of the trace, ns. ``own``: where it is an export's."""

    def __init__(
        self, start: int, frames: Frames, kinds: Kinds, layout: Layout, tally: Tally, own: Own | None = None
    ) -> None:
        texts = kinds.texts
        self._start, self._frames, self._layout, self.tally, self._own = start, frames, layout, tally, own
        self._blocks = Blocks()
        self._names = CodedById(lambda n: texts.content(n) or "(no name)")
        self._compile_ids = CodedById(lambda n: _compile_id(texts.content(n)))
        signatures = Signatures(texts)
        self._shapes, self._strides = CodedByKey(signatures.shapes), CodedByKey(signatures.strides)
        self._dtypes, self._arguments = CodedById(signatures.dtypes), CodedById(signatures.arguments)
        self._details_of = Details(kinds)
        self._details = CodedByKey(self._details_of.text)
        self._device_table = TextTable()
        self._devices_of_lanes = self._device_table.codes(layout.device)
        self._memory_devices = CodedByKey(lambda rest, number: memory_device(texts, rest, number), self._device_table)

    @property
    def refused(self) -> int:
        """Texts that were left out because all of them are too long."""
        return sum(one.refused for one in (self._shapes, self._strides, self._details))

    def of(self, window: Window, state: dict[str, np.ndarray], keep: np.ndarray) -> dict[str, Any]:
        """The columns of the rows to ``keep``. ``state``: what ``rows`` found out about them."""
        before = int(state["before"][0])
        picked = np.flatnonzero(keep)
        whole = picked + before
        records, frames, layout = Picked([window.records], picked), self._frames, self._layout
        lane, kind = records["pid"], records["kind"]
        shown, how = state["shown"][whole], state["how"][whole]
        said = None if self._own is None else self._own.places(records["rest"])
        if self._own is not None and said is not None:
            kind, how = self._own.kinds(said, kind), self._own.attributions(said, how)
        start = records["start"] - self._start
        self.tally.count(kind, window.own[picked], how, shown)
        places = np.where(state["shown"] > 0, frames.place[state["shown"]], -1)
        step, period = self._steps(records["start"])
        module = state["module"][whole]
        shapes = self._shapes.codes(records["dims"], records["types"])
        arguments = self._arguments.codes(records["concrete"])
        self.tally.shapes |= bool((shapes >= 0).any())
        self.tally.arguments |= bool((arguments >= 0).any())
        self.tally.modules |= bool((module >= 0).any())
        parent = window.parent[picked]
        node = state["node"][whole]
        devices = np.array([-1 if d is None else i for i, d in enumerate(layout.device)], np.int32)
        numbers = {slot: np.where(records[slot] == MISSING, -1, records[slot])
                   for slot in ("external", "correlation", "index", "sequence")}  # fmt: skip
        compiled = np.where(kind == _LAUNCH, records["name"], 0)
        columns = {
            "kind": Coded(kind.astype(np.int32), KINDS),
            "name": self._names.table.column(self._name_codes(records)),
            "start": start,
            "duration": records["duration"],
            "self": window.own[picked],
            "id": window.first + picked,
            "parent": parent,
            "depth": window.depth[picked],
            "lane": layout.lane[lane],
            "rank": np.full(len(picked), layout.rank, np.int32),
            "process": layout.process[lane],
            "thread": layout.thread[lane],
            "device": self._device(records, devices[lane]),
            "stream": layout.stream[lane],
            "stack": np.where(node > 0, node, -1),
            "file": frames.files.column(np.where(shown > 0, frames.file[shown], -1)),
            "line": np.where(shown > 0, frames.line[shown], -1),
            "function": frames.functions.column(np.where(shown > 0, frames.function[shown], -1)),
            "attribution": Coded(how.astype(np.int32), ATTRIBUTIONS),
            "outermost_on_line": outermost(state["parent"], places)[whole],
            "module": frames.modules.column(module),
            "phase": Coded(state["phase"][whole].astype(np.int32), schema.PHASES),
            "period": Coded(period, schema.PERIODS),
            "step": step,
            "sequence": numbers["sequence"],
            "shapes": self._shapes.table.column(shapes),
            "strides": self._strides.column(records["strides"], np.where(records["strides"] > 0, records["types"], 0)),
            "dtypes": self._dtypes.column(records["types"]),
            "arguments": self._arguments.table.column(arguments),
            "correlation": self._blocks.numbered(records, state["forward"][whole]),
            "external_id": numbers["external"],
            "correlation_id": numbers["correlation"],
            "source_index": numbers["index"],
            "compile_id": self._compile_ids.column(compiled),
            "detail": self._details.column(*self._details_of.numbers(records)),
        }  # fmt: skip
        return columns if self._own is None or said is None else columns | self._own.columns(said, records, columns)

    def _name_codes(self, records: Picked) -> np.ndarray:
        """Names; of memory, what happened."""
        codes = self._names.codes(records["name"])
        memory = records["kind"] == _MEMORY
        if memory.any():
            table, size = self._names.table, records["bytes"]
            named = np.where(size < 0, table.code("release"), table.code("allocate"))
            codes = np.where(memory & (size != MISSING), named, codes)
        return codes

    def _device(self, records: Picked, lane_device: np.ndarray) -> Coded:
        memory = records["kind"] == _MEMORY
        codes = np.where(lane_device >= 0, self._devices_of_lanes[lane_device], -1)
        if memory.any():
            number = np.where(records["device"] == MISSING, -1, records["device"])[memory]
            codes[memory] = self._memory_devices.codes(records["rest"][memory], np.clip(number, -1, 1 << 20))
        return self._device_table.column(codes)

    def _steps(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        layout = self._layout
        if not len(layout.step_start):
            return np.full(len(start), -1, np.int32), np.full(len(start), -1, np.int32)
        at = np.searchsorted(layout.step_start, start, "right") - 1
        inside = (at >= 0) & (start < layout.step_end[np.maximum(at, 0)])
        period = np.where(at == 0, schema.PERIODS.index("warmup"), schema.PERIODS.index("steady"))
        return np.where(inside, layout.step_number[np.maximum(at, 0)], -1), np.where(inside, period, -1)


def _compile_id(name: str) -> str | None:
    found = _COMPILED.match(name)
    return found[1] if found else None
