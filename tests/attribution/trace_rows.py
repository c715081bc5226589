"""A trace read with pyarrow alone: rows as dictionaries, and what the rows' ids point to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass
class Rows:
    """The rows of one trace. ``events`` leaves out frame and source rows."""

    metadata: dict[str, Any]
    all: list[Row]

    @cached_property
    def events(self) -> list[Row]:
        return [r for r in self.all if r["kind"] not in ("frame", "source")]

    @cached_property
    def by_id(self) -> dict[int, Row]:
        return {r["id"]: r for r in self.events}

    @cached_property
    def frames(self) -> dict[int, Row]:
        return {r["id"]: r for r in self.all if r["kind"] == "frame"}

    @cached_property
    def children(self) -> dict[int, list[Row]]:
        found: dict[int, list[Row]] = {}
        for row in self.events:
            found.setdefault(row["parent"], []).append(row)
        return found

    @cached_property
    def main_lane(self) -> dict[str, Any]:
        lanes = [x for x in self.metadata["lanes"] if x["kind"] == "thread"]
        return next((x for x in lanes if x["os_thread"] == x["process"]), lanes[0])

    def ancestors(self, row: Row) -> Iterator[Row]:
        """Enclosing events, innermost first; stops at a parent that is not there or a cycle."""
        seen = {row["id"]}
        while (row := self.by_id.get(row["parent"])) is not None and row["id"] not in seen:  # type: ignore[assignment]
            seen.add(row["id"])
            yield row

    def capability(self, name: str) -> bool:
        return bool(self.metadata["capabilities"].get(name, {}).get("observed"))

    def stack(self, frame: int) -> list[tuple[str, int, str]]:
        """(file, line, function) from the innermost frame outwards."""
        out = []
        while frame in self.frames and len(out) < 100_000:
            row = self.frames[frame]
            out.append((row["file"], row["line"], row["function"]))
            frame = row["parent"]
        return out


def read_rows(path: Path) -> Rows:
    """Read a whole (small) trace."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        return Rows(json.loads(file.metadata.metadata[b"neuron_explorer"]), file.read().to_pylist())
