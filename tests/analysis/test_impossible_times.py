"""Rows with times that cannot be are set aside and counted: the rest of the trace keeps its figures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic import event, metadata, rows_of, write
from typer.testing import CliRunner

from neuron_explorer.analysis.answer import Ask, quarantined
from neuron_explorer.analysis.bottlenecks import by_line
from neuron_explorer.analysis.questions import ask, questions
from neuron_explorer.cli.main import app
from neuron_explorer.trace.store import load

STEPS = [(0, 1000, "warmup"), (1000, 1000, "steady"), (2000, 1000, "steady")]
END = (1 << 63) - 1


def events(*impossible):
    """Two operators of 100 ns in each steady step, and others as long as told."""
    good = [event("aten::mm", at, 100, file="m.py", line=3, function="f") for at in (1100, 1300, 2100, 2300)]
    return good + [event("aten::add", 1500 + i, ns, file="m.py", line=4) for i, ns in enumerate(impossible)]


@pytest.fixture
def made(tmp_path):
    return write(tmp_path / "long.parquet", rows_of(events(END, END, END - 5, 1 << 61), STEPS), metadata())


def test_a_few_rows_near_the_end_of_64_bits_are_in_no_figure_and_in_every_header(made):
    with load(made) as trace:
        assert quarantined(trace) == 4
        assert trace.sql_arrow("SELECT count(*) AS n FROM events").column("n")[0].as_py() == 4 + 3
        assert trace.read(["duration"]).num_rows == 7
        assert sum(read().num_rows for read in trace.parts(["name", "duration"]).readers) == 7
        (line,) = (row for row in by_line(trace).rows if row.line == 3)
        assert (line.self_ns, line.launches) == (400, 4)
    told = json.loads(CliRunner().invoke(app, ["report", "lines", str(made), "--format", "json"]).stdout)
    assert told["quarantined"] == 4


@pytest.mark.parametrize("name", [n for n in questions() if n not in ("sandwich",)])
def test_every_report_answers(made, name):
    with load(made) as trace:
        assert ask(trace, name, Ask(period="all")).headline


def test_late_starts_and_own_times_are_looked_at_too(tmp_path):
    rows = rows_of(events(10, 20), STEPS)
    for row in rows:
        if row["duration"] == 10:
            row["self"] = END
        if row["duration"] == 20:
            row["start"] = END
    rows.sort(key=lambda row: row["start"])
    with load(write(tmp_path / "late.parquet", rows, metadata())) as trace:
        assert quarantined(trace) == 2
        assert trace.read(["start"]).num_rows == 7


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1 << 40, END), max_size=12))
def test_what_stays_never_overflows_and_nothing_goes_that_fits(tmp_path, lengths):
    path = write(tmp_path / "any.parquet", rows_of(events(*lengths), STEPS), metadata())
    with load(path) as trace:
        kept = np.array(trace.read(["duration"]).column("duration").to_pylist(), object)
        assert sum(int(x) for x in kept if x > 0) <= 1 << 62
        assert len(kept) + quarantined(trace) == 7 + len(lengths)
        if sum(lengths) < 1 << 59:
            assert quarantined(trace) == 0
        assert by_line(trace, "all").rows
