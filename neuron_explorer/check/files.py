"""The files of a check: traces to counts, baselines, reports."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from neuron_explorer.check.baseline import (
    MOST_BYTES,
    Baseline,
    BaselineError,
    NoBaselineError,
    baseline_of,
    parse_baseline,
)
from neuron_explorer.check.counts import Counted, Counts
from neuron_explorer.check.ranks import counts_of_path
from neuron_explorer.errors import OutputError
from neuron_explorer.trace.sniff import printable


def counts_of_files(paths: Sequence[Path]) -> list[Counts]:
    """The counts of each trace, and of the run in each directory. Raises ``BadTraceError`` for what cannot be read."""
    return [counts_of_path(path) for path in paths]


def joined(every: Sequence[Counts]) -> Counts:
    """Several recordings of a run as one: what differs between them is a range."""
    if len(every) == 1:
        return every[0]
    together = baseline_of(every)
    groups = {}
    for name, section in together.sections.items():
        first = every[0].groups[name]
        places = {key: place for counts in every for key, place in counts.groups[name].places.items()}
        groups[name] = Counted(first.group, section.counts, not section.reason, section.reason, places)
    notes = tuple(dict.fromkeys(note for counts in every for note in counts.notes))
    return Counts(groups, min(c.steps for c in every), every[0].rule, every[0].environment, notes)


def read_baseline(path: Path) -> Baseline:
    """Raises ``NoBaselineError`` where there is none, ``BaselineError`` where it cannot be read."""
    shown = printable(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device never ends
            raise BaselineError(f"{shown} is not a regular file; a baseline is one.")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise BaselineError(f"{shown} is too large for a baseline.")
        text = data.decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        raise NoBaselineError(
            f"there is no baseline {shown}; make one with `neuron-explorer baseline TRACE TRACE -o {shown}`."
        ) from None
    except UnicodeDecodeError:
        raise BaselineError(f"{shown} is no baseline: it is not text.") from None
    except OSError as error:
        raise BaselineError(f"{shown} cannot be read: {error.strerror or error}.") from None
    if not text.strip():
        raise NoBaselineError(f"{shown} is empty; make it with `neuron-explorer baseline TRACE TRACE -o {shown}`.")
    return parse_baseline(text, shown)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises ``OutputError``."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"{printable(path)} cannot be written: {error.strerror or error}.") from None
