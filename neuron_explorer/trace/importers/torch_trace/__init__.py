"""``TORCH_TRACE`` logs: what torch.compile says of itself, as a trace of compilations.

The log is read in one pass; see ``lines`` for its form, ``process`` for its records and
``model`` for what they become.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ....errors import BadTraceError
from ...sniff import printable
from ..report import ImportReport, Progress, Skipped
from .budget import Budget
from .files import LogGroup, groups, holds_log, is_log
from .lines import Losses, records

if TYPE_CHECKING:
    from ...compiles import Compiles
    from ...paths import PathRules
    from .process import ProcessLog

__all__ = ["IMPORTER", "TorchTrace", "read_logs"]

MAX_STRINGS: Final = 200_000
MAX_STRING: Final = 4000

_WHY: Final = {
    "records with damaged JSON": "their JSON cannot be read",
    "records cut at the end of a file": "the file ends inside them (the program was killed, or still runs)",
    "records without their payload": "the lines that they announce are missing",
    "payloads whose MD5 differs": "the payload is not what was written",
    "payloads cut at the end of a file": "the file ends inside them (the program was killed, or still runs)",
    "payload lines without a record": "the record that they belong to is missing",
    "payloads that their record does not announce": "no record says what they are",
    "payloads longer than 32 MiB": "too long to be read",
    "lines longer than 32 MiB": "too long to be read",
    "lines that are no records": "written by something else",
    "files that end in damage": "the file cannot be read further",
    "records of a form that is not known": "another version of torch, or damage",
    "timed events of a form that is not known": "another version of torch, or damage",
    "timed events with an impossible time": "their time is no time of day since 2015",
    "timed events that end before they begin": "the clock was set back, or damage",
    "timed events that end but never began": "their begin is missing",
}


class TorchTrace:
    """Follows :class:`neuron_explorer.trace.importers.Importer`."""

    name = "torch_trace"
    title = "a TORCH_TRACE log"

    def sniff(self, path: Path) -> bool:
        """Whether ``path`` is a log, or a directory that holds one."""
        return is_log(path) or holds_log(path)

    def read(self, path: Path, output: Path, progress: Progress | None = None) -> ImportReport:
        """Write the trace of all compilations in the logs at ``path``."""
        found = groups(path)
        if not found:
            raise BadTraceError(f"{printable(path)} holds no TORCH_TRACE log.")
        return read_logs(path, found, output, progress)


IMPORTER: Final = TorchTrace()


def read_logs(
    path: Path, found: list[LogGroup], output: Path, progress: Progress | None = None,
    beside: tuple[Skipped, ...] = (),
) -> ImportReport:  # fmt: skip
    """Write the trace of these logs. ``path`` names them in messages; ``beside``: what was left out beside them."""
    total = sum(_size(part) for group in found for part in group.parts)
    losses, done, budget = Losses(), 0, Budget()
    logs: list[ProcessLog] = []
    ranks: list[int] = []
    files: set[str] = set()
    for group in found:
        for log, rank in _processes(group, losses, (done, total, progress), files, budget):
            logs.append(log)
            ranks.append(rank)
        done += sum(_size(part) for part in group.parts)
    if progress is not None:
        progress(total, total)
    order = sorted(range(len(logs)), key=lambda n: (ranks[n], logs[n].first))
    logs, ranks = [logs[n] for n in order], [ranks[n] for n in order]
    return _write(path, output, logs, ranks, losses, files, (sum(len(g.parts) for g in found), total), beside)


def _processes(
    group: LogGroup, losses: Losses, position: tuple[int, int, Progress | None], files: set[str], budget: Budget
) -> list[tuple[ProcessLog, int]]:
    """What the parts of one log say, by process; ``files`` collects the names of source files."""
    from .clock import LogClock
    from .details import wanted
    from .process import ProcessLog

    done, total, progress = position
    strings: dict[int, str] = {}
    clock = LogClock(_year(group.parts[-1]))
    found: dict[int, ProcessLog] = {}
    for part in group.parts:
        last = [0.0]

        def moved(at: int, base: int = done, last: list[float] = last) -> None:
            if progress is not None and time.monotonic() - last[0] > 0.1:
                last[0] = time.monotonic()
                progress(min(base + at, total), total)

        try:
            for record in records(part, wanted, losses, moved):
                if record.name == "str":
                    _intern(record.body, strings, losses, record.where, budget)
                    continue
                log = found.get(record.pid)
                if log is None:
                    if len(found) >= 10_000:
                        losses.add("records of a form that is not known", record.where)
                        continue
                    log = found[record.pid] = ProcessLog(record.pid, losses, clock, strings, budget)
                log.add(record)
        except OSError as error:
            losses.add("files that end in damage", f"{part.name}: {error.strerror or error}")
        done += _size(part)
    files.update(strings.values())
    result = []
    for log in found.values():
        log.finish()
        rank = group.rank if group.rank >= 0 else max(log.ranks, key=lambda r: log.ranks[r], default=0)
        result.append((log, rank))
    return result


def _intern(body: Any, strings: dict[int, str], losses: Losses, where: str, budget: Budget) -> None:
    if (
        isinstance(body, list) and len(body) == 2 and isinstance(body[0], str)
        and isinstance(body[1], int) and not isinstance(body[1], bool) and len(strings) < MAX_STRINGS
    ):  # fmt: skip
        strings[body[1]] = budget.text(body[0], MAX_STRING) or ""
    else:
        losses.add("records of a form that is not known", where)


def _write(
    path: Path, output: Path, logs: list[ProcessLog], ranks: list[int], losses: Losses, files: set[str],
    size: tuple[int, int], beside: tuple[Skipped, ...],
) -> ImportReport:  # fmt: skip
    from ...compile_rows import compile_trace
    from ...write import TraceWriter
    from .model import compiles_of
    from .places import names_directories, path_rules, with_users_callers

    compiles = [compiles_of(log) for log in logs]
    kept = [n for n, c in enumerate(compiles) if c.compilations or c.limits or c.breaks]
    rules = path_rules(compiles, files)
    report = _report(output, logs, compiles, losses, size, rules)
    report = replace(report, skipped=report.skipped + beside)
    if not kept:
        lost = "; ".join(f"{s.number:,} {s.what}" for s in report.losses[:3])
        raise BadTraceError(
            f"{printable(path)} is a TORCH_TRACE log without a single compilation" + (f" ({lost})." if lost else ".")
        )
    compiles, ranks = [compiles[n] for n in kept], [ranks[n] for n in kept]
    begins = [c.start for one in compiles for c in one.compilations] + [x.time for one in compiles for x in one.limits]
    made = compile_trace(
        [with_users_callers(one, rules) for one in compiles], rules, ranks=ranks, start_unix_ns=min(begins, default=0),
        observed=_observed(logs, compiles), not_observed="a TORCH_TRACE log tells of compilations only",
    )  # fmt: skip
    document = made.metadata
    document["versions"] = _versions(logs)
    document["import"] = report.metadata()
    if names_directories(compiles, rules):
        document["discloses"]["paths"] = "absolute"
    counts = document["counts"]
    torn = sum(losses.counts[k] for k in losses.counts if "cut at the end" in k)
    counts["torn_records"] = torn
    untimely = losses.counts["timed events with an impossible time"]
    untimely += losses.counts["timed events that end before they begin"]
    counts["quarantined"] += untimely
    counts["import_losses"] = sum(s.number for s in report.losses if s.what in losses.counts) - torn - untimely
    with TraceWriter(output, document) as writer:
        writer.write_rows(made.columns)
    return report


def _report(
    output: Path, logs: list[ProcessLog], compiles: list[Compiles], losses: Losses, size: tuple[int, int],
    rules: PathRules,
) -> ImportReport:  # fmt: skip
    read: Counter[str] = Counter()
    for one in compiles:
        read["compilations"] += len(one.compilations)
        read["of them restarted attempts"] += sum(c.outcome == "restarted" for c in one.compilations)
        read["recompilations"] += len(one.recompiles)
        read["graph breaks"] += len(one.breaks)
        read["recompile limits reached"] += len(one.limits)
        read["parts of compilations"] += len(one.phases)
        for compilation in one.compilations:
            for event, number in compilation.facts.get("cache_events", {}).items():
                read[event.replace("_cache_", " cache ")] += number
    processes = sum(1 for one in compiles if one.compilations or one.limits)
    if processes > 1:
        read["processes"] = processes
    skipped = [
        Skipped(kind, number, _WHY.get(kind, ""), losses.examples.get(kind, ""), kind == "lines that are no records")
        for kind, number in losses.counts.most_common()
    ]
    dropped: Counter[str] = Counter()
    unused: Counter[str] = Counter()
    for one, log in zip(compiles, logs, strict=True):
        dropped.update({_shown(what, rules): number for what, number in one.dropped.items()})
        unused.update(log.unused)
    skipped += [Skipped(what, number, "more than a trace keeps") for what, number in dropped.most_common(50)]
    if unused:
        names = ", ".join(f"{name.removeprefix('artifact:')} ({n:,})" for name, n in unused.most_common(6))
        more = f" and {len(unused) - 6} more kinds" if len(unused) > 6 else ""
        why = f"not about when and why something was compiled: {names}{more}"
        skipped.append(Skipped("records that are not used", unused.total(), why, harmless=True))
    notes = dict.fromkeys(note for one in compiles for note in one.notes)
    return ImportReport("torch_trace", output, size[0], size[1], dict(read), tuple(skipped), tuple(notes))


def _shown(what: str, rules: PathRules) -> str:
    """A name of something dropped, with the file in it as the trace shows it."""
    head, at, place = what.partition(" at ")
    file, _, line = place.rpartition(":")
    return f"{head} at {rules.info(file).shown}:{line}" if at and file else what


def _observed(logs: list[ProcessLog], compiles: list[Compiles]) -> dict[str, str | None]:
    """What such a log tells, with its limits."""
    seen: Counter[str] = Counter()
    for log in logs:
        seen.update(log.read)
    guards = seen["dynamo_cpp_guards_str"] or seen["dynamo_guards"]
    return {
        "compile": "; ".join(dict.fromkeys(note for one in compiles for note in one.notes)),
        "recompile_reasons": "",
        "graph_breaks": "" if seen["artifact:dynamo_graph_break_reason"] else _no_breaks(compiles),
        "guards": "" if guards else None,
        "compile_phases": "" if seen["chromium_event"] else None,
    }


def _no_breaks(compiles: list[Compiles]) -> str:
    restarted = any(c.outcome == "restarted" for one in compiles for c in one.compilations)
    return "this torch logs no reasons of graph breaks: see the restarts" if restarted else ""


def _versions(logs: list[ProcessLog]) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("neuron-explorer")
    except PackageNotFoundError:
        own = ""
    return {
        "python": next((log.python_version for log in logs if log.python_version), ""),
        "torch": next((log.torch_version for log in logs if log.torch_version), ""),
        "neuron_explorer": own,
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _year(path: Path) -> int:
    """The year in which the file was last written."""
    try:
        return time.gmtime(path.stat().st_mtime).tm_year
    except (OSError, ValueError, OverflowError):
        return time.gmtime().tm_year
