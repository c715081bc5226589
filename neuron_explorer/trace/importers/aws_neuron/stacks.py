"""Places in the source: Python stacks and kernel stacks of a profile as frames of the trace.

The lines are those that the compiler kept: nobody looked at a Python stack while the work ran.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ...paths import PathRules
from .losses import Losses
from .tables import Tables
from .values import MISSING, parts

__all__ = ["NOWHERE", "Frames", "Place", "Places"]

MOST_FRAMES: Final = 1_000_000
DEEPEST: Final = 256
_LOCATION: Final = re.compile(r"\s*(.{1,4000}?):(\d{1,9})(?::\d{1,9})?\s*", re.DOTALL)


class Place(NamedTuple):
    """Where something comes from: the frame (0: none), and the line that is shown for it."""

    frame: int
    file: str
    line: int
    function: str


NOWHERE: Final = Place(-1, "", -1, "")


@dataclass
class Frames:
    """The calling-context tree. ``add`` gives ids from 1 on."""

    rules: PathRules = field(default_factory=lambda: PathRules({}))
    rows: list[tuple[int, str, int, str]] = field(default_factory=list)
    refused: int = 0
    _known: dict[tuple[int, str, int, str], int] = field(default_factory=dict)

    def add(self, parent: int, file: str, line: int, function: str) -> int:
        """The frame below ``parent`` (0: at the root)."""
        key = (parent, self.rules.info(file).shown[:4000], line, function[:1000])
        found = self._known.get(key)
        if found is None:
            if len(self.rows) >= MOST_FRAMES:
                self.refused += 1
                return parent
            self.rows.append(key)
            found = self._known[key] = len(self.rows)
        return found

    def columns(self) -> dict[str, Any]:
        """The rows of kind ``frame``."""
        count = len(self.rows)
        return {
            "kind": "frame", "start": [-1] * count, "id": list(range(1, count + 1)),
            "parent": [p or -1 for p, *_ in self.rows], "file": [r[1] for r in self.rows],
            "line": [r[2] for r in self.rows], "function": [r[3] for r in self.rows],
        }  # fmt: skip


class Places:
    """Places of instructions, from the tables of frames and the columns with ``file:line``."""

    def __init__(self, tables: Tables, frames: Frames, losses: Losses) -> None:
        self.frames = frames
        self._losses = losses
        self._python = _python_frames(tables)
        self._kernels = _kernel_frames(tables)
        self._of_kernel = _kernel_instructions(tables)
        self._known: dict[tuple[str | None, ...], Place] = {}
        self._chains: dict[tuple[str, Any], tuple[tuple[str, int, str], ...]] = {}

    def place(self, stack: str | None, kernel: str | None, nki: str | None, debug: str | None) -> Place:
        """Of ``stack_frame_ids``, ``kernel_instruction_name``, ``nki_source_location`` and the compiler's own."""
        key = (stack, kernel, nki, debug)
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 500_000:
                self._known.clear()
            found = self._known[key] = self._find(*key)
        return found

    def _find(self, stack: str | None, kernel: str | None, nki: str | None, debug: str | None) -> Place:
        chain: list[tuple[str, int, str]] = []
        ids = parts(stack, 64)
        if ids:
            chain += self._chain("python", self._python, str(ids[0]))
        inner = self._kernel(kernel)
        if not inner:
            inner = [p for text in parts(nki, 64)[:1] if (p := _location(text))]
        chain += inner
        if not chain and debug:
            chain = [p for text in parts(debug, 64)[:1] if (p := _location(text))]
        if not chain:
            return NOWHERE
        node, shown = 0, None
        for file, line, function in chain:
            node = self.frames.add(node, file, line, function)
            if self.frames.rules.info(file).user:
                shown = (file, line, function)
        file, line, function = shown or chain[-1]
        return Place(node, self.frames.rules.info(file).shown[:4000], line, function)

    def _kernel(self, name: str | None) -> list[tuple[str, int, str]]:
        entry = self._of_kernel.get(name) if name else None
        if entry is None:
            return []
        frame, file, line = entry
        chain = list(self._chain("kernel", self._kernels, frame))
        if file and line > 0 and (not chain or chain[-1][:2] != (file, line)):
            function = chain[-1][2] if chain and chain[-1][0] == file else ""
            chain.append((file, line, function))
        return chain

    def _chain(
        self, kind: str, table: dict[Any, tuple[Any, str, int, str]], innermost: Any
    ) -> tuple[tuple[str, int, str], ...]:
        known = self._chains.get((kind, innermost))
        if known is not None:
            return known
        found: list[tuple[str, int, str]] = []
        seen = set()
        at = innermost
        while at in table and at not in seen and len(found) < DEEPEST:
            seen.add(at)
            at, file, line, function = table[at]
            if file:
                found.append((file, line, function))
        if at in seen:
            self._losses.add("stacks that call themselves", 1, "cut where they repeat", f"frame {at}")
        elif len(found) >= DEEPEST:
            self._losses.add("stacks deeper than 256 frames", 1, "their outer frames were cut", f"frame {innermost}")
        result = self._chains[kind, innermost] = tuple(reversed(found))
        return result


def _python_frames(tables: Tables) -> dict[Any, tuple[Any, str, int, str]]:
    """Frame id -> parent, file, line, function."""
    files, functions = _names(tables, "StackFrameFileName"), _names(tables, "StackFrameFunctionName")
    locations: dict[str, tuple[str, int, str]] = {}
    for batch in tables.batches("StackFrameFileLocation", ("id", "file_name_id", "function_name_id", "line_number")):
        rows = zip(batch.list("id"), batch.list("file_name_id"), batch.list("function_name_id"),
                   batch.ints("line_number").tolist(), strict=True)  # fmt: skip
        for key, file, function, line in rows:
            if key is not None and len(locations) < MOST_FRAMES:
                locations[key] = (files.get(file or "", ""), _line(line), functions.get(function or "", ""))
    found: dict[Any, tuple[Any, str, int, str]] = {}
    for batch in tables.batches("StackFrame", ("id", "file_location_id", "parent_frame_id")):
        for key, where, parent in zip(
            batch.list("id"), batch.list("file_location_id"), batch.list("parent_frame_id"), strict=True
        ):
            if key is not None and len(found) < MOST_FRAMES:
                found[key] = (parent, *locations.get(where or "", ("", -1, "")))
    return found


def _names(tables: Tables, table: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for batch in tables.batches(table, ("id", "name")):
        for key, name in zip(batch.list("id"), batch.list("name"), strict=True):
            if key is not None and name and len(found) < MOST_FRAMES:
                found[key] = name
    return found


def _kernel_frames(tables: Tables) -> dict[Any, tuple[Any, str, int, str]]:
    found: dict[Any, tuple[Any, str, int, str]] = {}
    columns = ("stack_frame_id", "fully_qualified_function_name", "parent_stack_frame_id", "file_path", "line_number")
    for batch in tables.batches("KernelStackFrames", columns):
        for key, function, parent, file, line in zip(
            batch.ints(columns[0]).tolist(), batch.list(columns[1]), batch.ints(columns[2]).tolist(),
            batch.list(columns[3]), batch.ints(columns[4]).tolist(), strict=True,
        ):  # fmt: skip
            if key != MISSING and len(found) < MOST_FRAMES:
                found[key] = (parent, file or "", _line(line), function or "")
    return found


def _kernel_instructions(tables: Tables) -> dict[str, tuple[int, str, int]]:
    found: dict[str, tuple[int, str, int]] = {}
    columns = ("kernel_instruction_name", "stack_frame_id", "file_path", "line_number")
    for batch in tables.batches("KernelInstructions", columns):
        for name, frame, file, line in zip(
            batch.list(columns[0]), batch.ints(columns[1]).tolist(), batch.list(columns[2]),
            batch.ints(columns[3]).tolist(), strict=True,
        ):  # fmt: skip
            if name and len(found) < MOST_FRAMES:
                found[name] = (frame, file or "", _line(line))
    return found


def _location(text: Any) -> tuple[str, int, str] | None:
    matched = _LOCATION.fullmatch(text) if isinstance(text, str) else None
    return (matched[1], _line(int(matched[2])), "") if matched and _line(int(matched[2])) > 0 else None


def _line(number: int) -> int:
    return number if 0 < number < 1 << 31 else -1
