"""Launches are found while rows are written, whatever the ids are and wherever row groups end."""

from __future__ import annotations

import random

import numpy as np
import pyarrow.parquet as pq
import pytest

from neuron_explorer.trace.top_level import TopLevel
from neuron_explorer.trace.write import TraceWriter, dictionary, integers


def test_who_called(tmp_path):
    path = tmp_path / "t.parquet"
    rows = [
        # kind, name, id, parent, launch
        ("range", "step", 0, -1, False),
        ("op", "aten::a", 1, 0, True),
        ("op", "aten::b", 2, 1, False),
        ("fallback", "aten::b", 3, 2, False),
        ("autograd", "XBackward0", 4, -1, False),
        ("op", "aten::c", 5, 4, True),
        ("op", "autograd::engine::evaluate_function: X", 6, -1, False),
        ("op", "aten::d", 7, 6, True),
        ("launch", "region", 8, 99, False),  # its caller is not in the trace
        (None, None, 9, -1, False),
        ("op", None, 10, -1, True),
    ]
    with TraceWriter(path) as writer:
        writer.write_rows({"kind": "frame", "id": [1, 2], "parent": [-1, 1]})  # ids of their own
        for first in range(0, len(rows), 4):
            part = rows[first : first + 4]
            kind, name, ids, parent, _ = zip(*part, strict=True)
            start = range(first, first + len(part))
            writer.write_rows({"kind": kind, "name": name, "id": ids, "parent": parent, "start": list(start)})
    table = pq.read_table(path)
    assert table["top_level"].to_pylist() == [False, False, *(r[-1] for r in rows)]


@pytest.mark.parametrize("spread", [1, 1000, 1 << 40])
def test_ids_may_be_sparse(spread):
    rng = random.Random(spread)
    ids = [i * spread + rng.randrange(spread) for i in range(600)]
    kinds = [rng.choice(["op", "range"]) for _ in ids]
    parents = [-1 if not i else rng.choice([-1, ids[rng.randrange(i)], ids[-1] + 1]) for i in range(600)]
    callers = {i for i, kind in zip(ids, kinds, strict=True) if kind == "range"}
    seen, found = TopLevel(), []
    for first in range(0, 600, 100):
        part = slice(first, first + 100)
        codes = np.array([k == "range" for k in kinds[part]], np.int32)
        found += seen.column(
            dictionary(codes, ["op", "range"]), dictionary(np.full(100, -1), []),
            *(integers(np.array(v), "int64") for v in (range(100), ids[part], parents[part])),
        ).tolist()  # fmt: skip
    assert found == [k == "op" and (p < 0 or p in callers) for k, p in zip(kinds, parents, strict=True)]
    assert len(seen._bits) <= 1 << 20
