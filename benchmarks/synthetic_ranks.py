"""Writes made-up traces of the ranks of one run, each like ``synthetic_trace.py`` with collectives in every step.

Few ranks are made; the others are copies with another rank in their metadata. All ranks call the same
collectives, which end at the same time on each; how long before that each of the made ones begins differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import synthetic_trace

MAIN, FLIGHTS = 1, 9
PLACEHOLDER = 987_654
"""Stands for the rank in the metadata, so that it can be replaced in place."""
CALL_NS, WAIT_NS = 12_000, 60_000


def _more(variant: int, calls: int):
    """Rows of a step: ``calls`` all-reduces, each with its flight and a wait."""
    from neuron_explorer.trace.write import Coded

    def rows(step: int, start: int, stop: int) -> list[dict]:
        k = np.arange(calls)
        end = start + (stop - start) * (k + 1) // (calls + 1)
        begin = end - 400_000 - 40_000 * ((variant + k) % 4)
        ids = (1 << 40) + (step * calls + k) * 4
        details = [
            json.dumps({"operation": "all_reduce", "group": "0", "group_size": 64, "sequence": int(step * calls + n),
                        "bytes": 1 << 20, "dtype": "float32", "asynchronous": True}) for n in k
        ]  # fmt: skip
        back = [json.dumps({"group": "0", "sequence": int(step * calls + n)}) for n in k]
        same = {"process": 4242, "step": step, "phase": "backward"}
        codes = np.arange(calls, dtype=np.int32)
        return [
            {"kind": "collective", "name": "c10d::allreduce_", "start": begin, "duration": np.full(calls, CALL_NS),
             "self": np.full(calls, CALL_NS), "id": ids, "lane": MAIN, "thread": 0, "file": "train.py",
             "line": np.full(calls, 14), "function": "main", "detail": Coded(codes, details), **same},
            {"kind": "collective", "name": "gloo:all_reduce", "start": begin, "duration": end - begin,
             "self": end - begin, "id": ids + 1, "lane": FLIGHTS, "thread": -1, "correlation": ids,
             "detail": Coded(codes, back), **same},
            {"kind": "sync", "name": "wait: all_reduce", "start": end - WAIT_NS, "duration": np.full(calls, WAIT_NS),
             "self": np.full(calls, WAIT_NS), "id": ids + 2, "lane": MAIN, "thread": 0, "correlation": ids,
             "detail": '{"waits_for": "collective"}', **same},
        ]  # fmt: skip

    return rows


def write_run(directory: Path, ranks: int, events: int, *, calls: int = 16, made: int = 4) -> int:
    """Write the traces of ``ranks`` ranks of about ``events`` events each; returns the events of one."""
    steps = max(1, round(events / (len(synthetic_trace.step_template(4).rows) + 14 + 3 * calls)))
    base = steps * (len(synthetic_trace.step_template(4).rows) + 14)
    total = 0
    for variant in range(min(made, ranks)):
        about = {
            "rank": PLACEHOLDER, "world_size": ranks,
            "distributed": {"host": "one", "run_id": "made up", "attempt": 0, "process_groups": [
                {"name": "0", "description": "default_pg", "backend": "gloo", "ranks": list(range(ranks)),
                 "mesh_dimension": "dp"}]},
            "lanes": [{"lane": FLIGHTS, "kind": "collective", "name": "collectives of group 0", "process": 4242}],
        }  # fmt: skip
        first = directory / f"variant{variant}.tmp"
        total = synthetic_trace.write(first, base, more=_more(variant, calls), about=about)
        data = first.read_bytes()
        first.unlink()
        wanted = str(PLACEHOLDER).encode()
        assert data.count(wanted) >= 1
        for rank in range(variant, ranks, made):
            path = directory / f"part_rank={rank:04d}" / "trace.parquet"
            path.parent.mkdir(parents=True)
            path.write_bytes(data.replace(wanted, str(rank).rjust(len(wanted)).encode()))
    return total
