"""What is kept beside the traces of a run."""

from __future__ import annotations

import json

from made_up_ranks import MS, call, write_rank

from neuron_explorer.analysis.ranks.view import view_of


def test_clocks_are_kept_beside_the_facts(tmp_path):
    run = tmp_path / "run"
    for rank in range(2):
        events = [one for n in range(4) for one in call(10 * MS * n + (1 - rank) * MS, 1000, (1 + rank) * MS, n)]
        write_rank(run / f"part_rank={rank:04d}" / "trace.parquet", rank, 2, events, [])
    view = view_of(run)
    found = view.clocks
    kept = json.loads((run / ".neuron-explorer" / "ranks" / "clocks.json").read_text())
    assert kept["reference"] == found.reference == 0
    assert [(r["rank"], r["offset_ns"], r["drift"], r["error_ns"]) for r in kept["ranks"]] == [
        (rank, clock.offset_ns, clock.drift, clock.error_ns) for rank, clock in sorted(found.of.items())
    ]  # fmt: skip
    assert len(kept["ranks"]) == 2 and kept["refused"] == []
