"""A made-up run of four ranks: rank 2 computes for longer at line 20, all wait for it, clocks are hours apart."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis" / "ranks"))
from made_up_ranks import MS, call, event, write_rank

WORLD, STEPS, SLOW = 4, 8, 2
HOUR = 3_600_000 * MS


def make(directory: Path, *, collectives: bool = True) -> Path:
    """Write it."""
    chance = random.Random(7)
    now = [0] * WORLD
    events: list[list] = [[] for _ in range(WORLD)]
    steps: list[list] = [[] for _ in range(WORLD)]
    for step in range(STEPS):
        begins = list(now)
        for part in range(2):
            for rank in range(WORLD):
                took = 1 * MS + chance.randrange(50_000) + (1 * MS if rank == SLOW else 0)
                events[rank].append(event("aten::mm", now[rank], took, file="model.py", line=20 + part, function="f"))
                now[rank] += took
            last = max(now)
            for rank in range(WORLD):
                took = last + 20_000 - now[rank]
                if collectives:
                    events[rank] += call(now[rank], 5_000, took, 2 * step + part, line=40, wait=took - 5_000,
                                         group_size=WORLD)  # fmt: skip
                now[rank] += took
        for rank in range(WORLD):
            steps[rank].append((begins[rank], now[rank] - begins[rank], "warmup" if step < 2 else "steady"))
    for rank in range(WORLD):
        write_rank(directory / f"part_rank={rank:04d}" / "trace.parquet", rank, WORLD, events[rank], steps[rank],
                   start_unix_ns=1_760_000_000_000_000_000 + rank * HOUR)  # fmt: skip
    return directory
