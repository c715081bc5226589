"""A file with its lines' costs: the same figures as everywhere else, and what stands out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from neuron_explorer.analysis import bottlenecks
from neuron_explorer.analysis.readiness import readiness
from neuron_explorer.analysis.selection import select
from neuron_explorer.analysis.source_files import Marks, line_marks, source_file, why_no_text
from neuron_explorer.trace.store import load

synthetic = sys.modules["synthetic"]
event = synthetic.event
SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.mark.parametrize("period", ["auto", "all"])
def test_lines_and_files_agree_with_the_bottlenecks(period):
    with load(SAMPLES / "gpt_training.parquet") as trace:
        selection = select(trace, period)
        lines = bottlenecks.by_line(trace, selection=selection)
        files = bottlenecks.by_file(trace, selection=selection)
        assert bottlenecks.files_of(lines) == files
        cut = bottlenecks.by_line(trace, selection=selection, limit=3)
        assert bottlenecks.files_of(cut) is None
        assert len(source_file(trace, files[0].file, selection, cut).rows) == files[0].lines
        for row in files:
            own = {r.line: r for r in lines.rows if r.file == row.file}
            assert source_file(trace, row.file, selection).rows == own
            assert source_file(trace, row.file, selection, lines).rows == own
            assert row.self_ns == sum(r.self_ns for r in own.values())
            assert row.launches == sum(r.launches for r in own.values())
            assert row.lines == len(own)
    assert [row.self_ns for row in files] == sorted((row.self_ns for row in files), reverse=True)


def device(**changes):
    return {"device": {"type": "neuron", "name": "neuron", "emulated": True}, **changes}


def marked(events, **changes):
    trace = synthetic.memory_trace(events, **changes)
    return line_marks(trace, "a.py", select(trace, "all"))


def test_what_stands_out_on_a_line():
    at = {"file": "a.py", "line": 2}
    to_host = {"kind": "copy", "detail": '{"direction": "device_to_host", "bytes": 48}', **at}
    marks = marked(
        [
            event("aten::nonzero", 0, 50, event("copy", 5, 5, **to_host), kind="fallback", **at),
            event("aten::item", 100, 50, event("aten::_local_scalar_dense", 110, 5, kind="sync", **at), **at),
            event("copy", 200, 5, event("copy", 201, 2, **to_host), **to_host),
            event("copy", 210, 5, kind="copy", detail='{"direction": "device_to_device", "bytes": 8}', **at),
            event("copy", 220, 5, kind="copy", detail='{"direction": "host_to_device", "bytes": 0}', **at),
            event("copy", 230, 5, kind="copy", detail="no json", **at),
            event("forward", 300, 0, kind="recompile", **at),
            event("break", 310, 0, kind="graph_break", file="a.py", line=3),
            event("aten::mm", 320, 5, bytes_read=10, bytes_written=5, file="a.py", line=4),
            event("aten::mm", 330, 5, file="b.py", line=2, kind="fallback"),
        ],
        **device(),
    )
    assert marks == {
        2: Marks(fallbacks=1, waits=1, copies=2, bytes=48, recompiles=1),
        3: Marks(graph_breaks=1),
        4: Marks(bytes=15),
    }


def test_a_read_on_the_cpu_would_wait_on_a_device():
    at = {"file": "a.py", "line": 2}
    name = "aten::_local_scalar_dense"
    read = [event(name, 0, 5, **at), event(name, 9, 5, phase="optimizer", **at)]
    assert marked(read) == {2: Marks(waits=1)}
    assert marked(read, **device()) == {}


@pytest.mark.parametrize("name", ["gpt_training", "llama_generate"])
def test_waits_agree_with_the_readiness_report(name):
    with load(SAMPLES / f"{name}.parquet") as trace:
        report = readiness(trace)
        selection = select(trace, "all")
        found = [w for w in report.waits if w.what == "value" and w.file and not w.host_counter]
        assert found
        for wait in found:
            assert line_marks(trace, wait.file, selection)[wait.line].waits == wait.calls


def test_the_text_or_why_there_is_none():
    events = [event("aten::mm", 0, 5, file="a.py", line=1)]
    trace = synthetic.memory_trace(events, sources={"a.py": "x = 1\r\ny = 2\n", "empty.py": ""})
    shown = source_file(trace, "a.py", select(trace, "all"))
    assert shown.lines == ("x = 1", "y = 2")
    assert not shown.reason
    assert shown.rows[1].self_ns == 5
    missing = source_file(trace, "/etc/passwd", select(trace, "all"))
    assert missing.lines is None
    assert "libraries" in missing.reason
    for kept, says in (("none", 'source="all"'), ("lines", "single lines")):
        assert says in why_no_text(synthetic.memory_trace(events, discloses={"source": kept}), "a.py")
    refused = synthetic.memory_trace(events, sources=None, **{"discloses": {"source": "all"}})
    refused.metadata["sources"] = {"refused": {"a.py": "changed after the recording began"}}
    assert "changed after" in why_no_text(refused, "a.py")
    refused.metadata["sources"] = {"refused": ["odd"]}
    assert "libraries" in why_no_text(refused, "a.py")
