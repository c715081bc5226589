"""CSV: the events as a table for spreadsheets and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from . import sink
from .batches import tables
from .plain import integers_or_null, plain_text

if TYPE_CHECKING:
    import pyarrow as pa

    from ..store import Trace
    from . import Progress, Window

__all__ = ["COLUMNS", "EXPORTER", "Csv", "harmless"]

COLUMNS: Final = (
    "kind", "name", "start", "duration", "self", "id", "parent", "depth", "lane", "rank", "process", "thread",
    "device", "stream", "file", "line", "function", "attribution", "module", "phase", "period", "step", "shapes",
    "dtypes", "arguments", "sequence", "correlation", "compile_id",
)  # fmt: skip
_NANOSECONDS: Final = ("start", "duration", "self")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(text: str) -> str:
    """A spreadsheet would run a cell that begins like a formula: it gets a quote in front."""
    text = text.replace("\0", "\ufffd")
    return "'" + text if text.lstrip(" ").startswith(_FORMULA) else text


class Csv:
    """The exporter; see the module."""

    name: Final = "csv"
    title: Final = "a table for spreadsheets (CSV)"
    suffix: Final = ".csv"

    def write(self, trace: Trace, output: Path, window: Window | None = None, progress: Progress | None = None) -> int:
        """Write the file; see ``Exporter``."""
        import pyarrow as pa
        from pyarrow import csv

        header = ",".join(f"{name}_ns" if name in _NANOSECONDS else name for name in COLUMNS)
        options = csv.WriteOptions(include_header=False)
        total, done = int(trace.metadata["counts"].get("events") or 0), 0
        with sink.text(output) as file:
            file.write(f"{header}\n".encode())
            for table in tables(trace, COLUMNS, window):
                columns = [_column(table, name) for name in COLUMNS]
                body = pa.BufferOutputStream()
                csv.write_csv(pa.table(columns, names=list(COLUMNS)), body, options)
                file.write(body.getvalue())
                done += table.num_rows
                if progress is not None:
                    progress(done, max(total, done))
        return output.stat().st_size


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name]
    if str(column.type).startswith("dictionary"):
        return plain_text(column, harmless)
    return column if name == "start" else integers_or_null(column)


EXPORTER: Final = Csv()
