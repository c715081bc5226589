"""Counts and self times of operators against torch's own ``key_averages``, on a trace that torch.profiler wrote."""

from __future__ import annotations

import pytest

from neuron_explorer.analysis.bottlenecks import by_op
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.store import load

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averages")
    layers = torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(3):
            model(torch.ones(8, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    profiler.export_chrome_trace(str(folder / "run.json"))
    import_trace(folder / "run.json", folder / "run.parquet")
    averages = {row.key: row for row in profiler.key_averages()}
    with load(folder / "run.parquet") as trace:
        rows = {row.name: row for row in by_op(trace, "all").rows}
        # torch drops an event that is the only child of one of its own name (`_remove_dup_nodes`).
        alone = trace.sql(
            "SELECT child.name AS name, count(*) AS n FROM events child JOIN events outside "
            "ON child.parent = outside.id WHERE child.name = outside.name "
            "AND (SELECT count(*) FROM events e WHERE e.parent = outside.id) = 1 GROUP BY 1"
        )
        yield averages, rows, dict(zip(alone.name, alone.n.tolist(), strict=True))


def test_every_operator_is_counted_as_torch_counts_it(recorded):
    averages, rows, dropped = recorded
    operators = {name: row for name, row in averages.items() if name.startswith("aten::")}
    assert len(operators) > 15
    ours = {name: rows[name].calls - dropped.get(name, 0) for name in operators}
    assert ours == {name: row.count for name, row in operators.items()}


def test_self_times_are_torchs_but_for_its_rounding_to_a_microsecond(recorded):
    averages, rows, _ = recorded
    compared = 0
    for name, row in averages.items():
        if name.startswith("aten::"):
            # torch rounds start and end of every event, and so the time of each nested one.
            slack = 2_000 * (row.count + sum(r.calls for r in rows.values()) // 50 + 1)
            assert rows[name].self_ns == pytest.approx(row.self_cpu_time_total * 1_000, abs=slack, rel=0.02), name
            compared += 1
    whole = sum(row.self_cpu_time_total for name, row in averages.items() if name.startswith("aten::")) * 1_000
    ours = sum(row.self_ns for name, row in rows.items() if name.startswith("aten::"))
    assert compared > 15 and ours == pytest.approx(whole, rel=0.05)
