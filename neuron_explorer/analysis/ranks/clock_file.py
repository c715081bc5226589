"""How the clocks of a run's ranks stand to each other, as a file beside the facts: for other programs to read.

``.neuron-explorer/ranks/clocks.json`` in the run's directory. Times in ns; at a rank's time ``x`` since the start of
its trace, the reference's trace is at ``x + offset_ns + drift * x``, wrong by ``error_ns`` at most.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from neuron_explorer.analysis.ranks.clocks import Clocks
from neuron_explorer.analysis.ranks.facts import RunFacts

NAME: Final = "clocks.json"
VERSION: Final = 1


def clock_document(run: RunFacts, clocks: Clocks) -> dict[str, Any]:
    """The document: offset, drift and bounds by rank, and why a rank has none."""
    starts = {facts.rank: facts.start_unix_ns for facts in run.ranks}
    return {
        "version": VERSION,
        "reference": clocks.reference,
        "ranks": [
            {"rank": rank, "start_unix_ns": starts.get(rank, 0), "offset_ns": clock.offset_ns, "drift": clock.drift,
             "error_ns": clock.error_ns, "error_at_ns": list(clock.knots), "errors_ns": list(clock.errors),
             "anchors": clock.anchors, "via": clock.via}
            for rank, clock in sorted(clocks.of.items())
        ],
        "refused": [{"rank": rank, "reason": why} for rank, why in sorted(clocks.refused.items())],
    }  # fmt: skip


def keep_clocks(folder: Path, run: RunFacts, clocks: Clocks) -> None:
    """Write it, whole or not at all. A folder that cannot be written is no error: the clocks are found again."""
    temporary = folder / f".{NAME}-{os.getpid()}"
    with suppress(OSError):
        temporary.write_text(json.dumps(clock_document(run, clocks)), encoding="utf-8")
        os.replace(temporary, folder / NAME)
