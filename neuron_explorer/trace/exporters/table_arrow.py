"""Arrow IPC: the events table for pandas, Polars, DuckDB, R and others, with texts as plain strings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..schema import COLUMNS, METADATA_KEY, arrow_schema
from . import sink
from .batches import ROWS, tables
from .plain import one_chunk, plain_text

if TYPE_CHECKING:
    from ..store import Trace
    from . import Progress, Window

__all__ = ["EXPORTER", "Arrow"]

_NAMES: Final = tuple(c.name for c in COLUMNS if c.name != "text")


class Arrow:
    """The exporter; see the module."""

    name: Final = "arrow"
    title: Final = "a table for other programs (Arrow IPC, also called Feather)"
    suffix: Final = ".arrow"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file, or a stream where its name ends in ``.arrows``; see ``Exporter``."""
        import pyarrow as pa
        from pyarrow import ipc

        types = arrow_schema()
        fields = [
            pa.field(n, pa.string() if pa.types.is_dictionary(types.field(n).type) else types.field(n).type)
            for n in _NAMES
        ]
        metadata = json.dumps(trace.metadata, separators=(",", ":")).encode("ascii")
        schema = pa.schema(fields, {METADATA_KEY: metadata})
        make = ipc.new_stream if output.suffix == ".arrows" else ipc.new_file
        total, done = int(trace.metadata["counts"].get("events") or 0), 0
        options = ipc.IpcWriteOptions(compression="zstd")
        with sink.binary(output) as file, make(file, schema, options=options) as writer:
            for table in tables(trace, _NAMES, window):
                columns = [
                    plain_text(table[f.name]) if pa.types.is_string(f.type) else one_chunk(table[f.name])
                    for f in fields
                ]
                writer.write_table(pa.table(columns, schema=schema), max_chunksize=4 * ROWS)
                done += table.num_rows
                if progress is not None:
                    progress(done, max(total, done))
        return output.stat().st_size


EXPORTER: Final = Arrow()
