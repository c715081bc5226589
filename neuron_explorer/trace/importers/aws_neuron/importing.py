"""One profile → one trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....errors import BadTraceError
from ...sniff import printable
from ..report import ImportReport, Progress
from .device import read_device
from .directory import Profile
from .draft import Draft
from .losses import Losses
from .nest import nest
from .spill import Spill
from .steps import Steps
from .system import read_system
from .tables import NEWEST_MAJOR, Tables
from .writing import document, write_rows

__all__ = ["import_tables"]


def import_tables(
    profile: Profile, output: Path, progress: Progress | None = None, *, form: str = "parquet", shown: str = "",
    losses: Losses | None = None, size: tuple[int, int] | None = None, divisor: int = 1,
) -> ImportReport:  # fmt: skip
    """Read the tables, write the trace. Raises ``BadTraceError`` when not one event is in them."""
    from ...write import TraceWriter

    losses = losses or Losses()
    tables = Tables(profile.tables, losses, progress, divisor=divisor)
    spill = Spill(output)
    try:
        draft = Draft(spill, losses)
        tables.read_schema()
        system = tables.has("SystemProfileEvents") or tables.has("SystemProfileMetadata")
        observed: dict[str, str | None] = {"device_time": ""}
        said: dict[str, Any] = {}
        ranks, threads, steps = 1, set(), []
        if system:
            outside = read_system(tables, draft, form, profile.name)
            facts, threads, ranks, steps = outside.facts, outside.threads, outside.processes, outside.steps
            if steps:
                observed["steps"] = ""
        else:
            inside = read_device(tables, draft, form, profile.name)
            facts, said = inside.facts, inside.said
            if inside.instructions.with_line:
                observed["stacks"] = "lines that the compiler kept, not those of a running program"
            if inside.instructions.with_module:
                observed["modules"] = "paths of the framework's layers, as the compiler kept them"
        _count_unused(tables, losses)
        columns = tables.count_columns()
        where = shown or printable(profile.folder)
        if not spill.rows:
            lost = "; ".join(f"{s.number:,} {s.what}: {s.why}" for s in losses.skipped() if not s.harmless)
            raise BadTraceError(f"{where} holds no event that can be used" + (f" ({lost[:600]})." if lost else "."))
        losses.add("frames beyond 1,000,000", draft.frames.refused, "more than a trace keeps")
        losses.add("rows on lanes beyond 4,000", draft.lanes.refused, "they are on the last lane of their kind")
        nested = nest(spill, threads, draft.frames) if threads else None
        if draft.kinds.get("collective"):
            observed["collectives"] = ""
        if nested is not None and draft.frames.rows:
            observed["stacks"] = "the line of a function's definition, not of the call in it"
        if draft.kinds.get("sync"):
            observed["sync"] = ""
        origin = min(spill.low, 0) if not system and spill.low < 10**15 else spill.low
        numbers, lanes = draft.lanes.final()
        with TraceWriter(output) as writer:
            calls = write_rows(writer, draft, lanes, numbers, origin, nested, Steps(steps))
            losses.add("Python calls", calls, "they became the stacks of what ran in them", harmless=True)
            report = _report(profile, output, tables, draft, columns, losses, size)
            writer.close(document(draft, facts, lanes, report, origin, said=said, observed=observed, ranks=ranks,
                                  calls=calls, steps=steps))  # fmt: skip
        if progress is not None:
            progress(1, 1)
        return report
    finally:
        spill.close()


def _count_unused(tables: Tables, losses: Losses) -> None:
    """Tables that nothing was read of."""
    unused = sorted(name for name in tables.files if name.lower() not in {t.lower() for t in tables.read})
    if unused:
        names = ", ".join(unused[:8]) + (" …" if len(unused) > 8 else "")
        losses.add("tables that are not used", len(unused), "a trace has no place for them", names, harmless=True)


def _report(
    profile: Profile, output: Path, tables: Tables, draft: Draft, columns: dict[str, int], losses: Losses,
    size: tuple[int, int] | None,
) -> ImportReport:  # fmt: skip
    read = {"events": draft.spill.rows}
    read |= {f"of kind {kind}": n for kind, n in draft.kinds.most_common()}
    if draft.frames.rows:
        read["frames of stacks"] = len(draft.frames.rows)
    read |= {"tables": sum(1 for n in tables.read.values() if n)} | columns
    notes = [f"The profile's schema is {tables.version}." if tables.version else "The profile names no schema version."]
    if tables.newer:
        notes.append(
            f"This schema is newer than {NEWEST_MAJOR}.x, whose fields are known: what has a known name was read."
        )
    elif not tables.fields and not size:
        notes.append("The profile does not describe its own tables (no SchemaFields): columns were taken by name.")
    if tables.divisor > 1:
        notes.append("Its times are picoseconds, by Summary.total_time; they were read as such.")
    notes += draft.notes
    count = sum(len(files) for files in profile.tables.values())
    files, total = size or (count, profile.bytes)
    return ImportReport("aws_neuron", output, files, total, read, losses.skipped(), tuple(notes))
