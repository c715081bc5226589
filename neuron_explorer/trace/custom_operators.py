"""The functions that are the kernels of custom operators, for the rows of those operators.

What the recording knew of the registrations comes first. For the others the stacks tell: the
outermost function outside torch, between an operator's call and what ran inside it, is its kernel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import spool
from .arrays import grouped
from .frames import nearest
from .registrations import Kernel, definition_line, is_custom, registered
from .rows import Rows
from .sources import SourceFile

if TYPE_CHECKING:
    from .lookups import Lookups
    from .paths import PathRules

_TRIES: Final = 64
_INTERCEPTORS: Final = ("__torch_dispatch__", "__torch_function__")


def add_kernel_sources(files: list[SourceFile], session: Mapping[str, Any], rules: PathRules) -> None:
    """Add the user's files that hold kernels to the files whose text a trace carries."""
    known = {file.shown: file for file in files}
    for kernels in registered(session).values():
        for kernel in kernels.values():
            if kernel is None or kernel.first < 1 or not rules.info(kernel.file).user:
                continue
            info = rules.info(kernel.file)
            if info.shown not in known:
                known[info.shown] = SourceFile(info.shown, info.path)
                files.append(known[info.shown])
            known[info.shown].codes.add((kernel.function.rpartition(".")[2], kernel.first))
            known[info.shown].lines.update((kernel.first, kernel.line))


class KernelTable:
    """The kernels of one recording's operators; learns from each window."""

    def __init__(
        self, session: Mapping[str, Any], lookups: Lookups, rules: PathRules, texts: Mapping[str, str]
    ) -> None:
        self._lookups, self._rules, self._texts = lookups, rules, texts
        names = [lookups.names.values[code] if code >= 0 else "" for code in lookups.name.tolist()]
        self.custom = np.fromiter((is_custom(n) for n in names), bool, len(names))
        self._names = names
        self._registered = registered(session)
        self._places: dict[tuple[str, str], dict[str, Any] | None] = {}
        self._tries: dict[tuple[str, str], int] = {}

    def device_types(self) -> dict[str, list[str]]:
        """Operators of the recording → device types that they have a kernel for."""
        names = {self._names[i] for i in np.flatnonzero(self.custom).tolist()}
        return {name: sorted(self._registered[name]) for name in sorted(names) if name in self._registered}

    def learn(self, rows: Rows) -> None:
        """Find kernels that were not registered in sight, in the stacks of a window."""
        if not self.custom.any() or not len(rows):
            return
        mine = np.flatnonzero(self.custom[rows.name] & (rows.kind == spool.OP) & (rows.stack > 0))
        mine = mine[[self._unknown(rows, row) for row in mine.tolist()]] if len(mine) else mine
        if not len(mine):
            return
        wanted = np.zeros(len(rows) + 1, bool)
        wanted[mine + 1] = True
        parent = np.concatenate([np.zeros(1, np.int64), rows.parent.astype(np.int64) + 1])
        above = nearest(parent, wanted)[parent[1:]] - 1
        inside = np.flatnonzero((above >= 0) & ((rows.flags & spool.OWN_STACK) != 0) & (rows.stack > 0))
        for row in inside[rows.stack[inside] != rows.stack[above[inside]]].tolist():
            operator = int(above[row])
            key = self._key(int(rows.name[operator]), int(rows.signature[operator]))
            if self._places.get(key) is None and self._tries.get(key, 0) < _TRIES:
                self._tries[key] = self._tries.get(key, 0) + 1
                self._places[key] = self._between(int(rows.stack[row]), int(rows.stack[operator]))

    def details(
        self, name: np.ndarray, signature: np.ndarray, wanted: np.ndarray, fell_back: np.ndarray
    ) -> list[tuple[int, str]]:
        """(row, JSON with its ``kernel``) for the ``wanted`` rows of custom operators with a known kernel."""
        if not self.custom.any():
            return []
        rows = np.flatnonzero(self.custom[name] & wanted)
        host = fell_back[rows].astype(np.int64)
        pairs = (name[rows].astype(np.int64) << 33) | (signature[rows].astype(np.int64) << 1) | host
        values, position = grouped(pairs)
        texts = [self._detail(v >> 33, (v >> 1) & 0xFFFFFFFF, bool(v & 1)) for v in values.tolist()]
        return [(row, texts[p]) for row, p in zip(rows.tolist(), position.tolist(), strict=True) if texts[p]]

    def _detail(self, name: int, signature: int, on_host: bool) -> str:
        operator, device = self._key(name, signature)
        place = self._place(operator, "cpu" if on_host else device)
        return json.dumps({"kernel": place}) if place else ""

    def _key(self, name: int, signature: int) -> tuple[str, str]:
        devices = self._lookups.raw_signatures[signature][4].split(" ")
        first = next((d for d in devices if not d.startswith("cpu")), devices[0])  # a number may be a host tensor
        return self._names[name], first.partition(":")[0]

    def _unknown(self, rows: Rows, row: int) -> bool:
        key = self._key(int(rows.name[row]), int(rows.signature[row]))
        return self._place(*key) is None and self._tries.get(key, 0) < _TRIES

    def _place(self, operator: str, device: str) -> dict[str, Any] | None:
        key = operator, device
        if key not in self._places:
            kernels = self._registered.get(operator, {})
            kernel = kernels.get(device) or (kernels.get("") if device not in kernels else None)
            if not device and kernel is None:
                kernel = next(iter(kernels.values())) if len(kernels) == 1 else None
            self._places[key] = self._shown(kernel) if kernel is not None else None
        return self._places[key]

    def _shown(self, kernel: Kernel) -> dict[str, Any]:
        return {"function": kernel.function, "file": self._rules.info(kernel.file).shown, "line": kernel.line}

    def _between(self, inner: int, outer: int) -> dict[str, Any] | None:
        """The outermost frame outside torch above ``inner`` and strictly below ``outer``."""
        frames, functions, files = self._lookups.frames, self._lookups.functions, self._lookups.files
        found = 0
        while inner > outer:  # a frame has a larger number than its caller
            name = functions.values[frames.function[inner]] if frames.function[inner] >= 0 else ""
            if frames.library_of[inner] == inner and not name.endswith(_INTERCEPTORS):
                found = inner
            inner = int(frames.parent[inner])
        if inner != outer or not found or frames.file[found] < 0:
            return None
        file, first = files.values[frames.file[found]], int(frames.first_line[found])
        function = functions.values[frames.function[found]] if frames.function[found] >= 0 else ""
        lines = self._texts.get(file, "").split("\n")
        return {"function": function, "file": file, "line": definition_line(lines, first, function)}
