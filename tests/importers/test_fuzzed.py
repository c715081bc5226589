"""Small valid inputs of each importer, changed by parts of its own format: a trace or one sentence, never else."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from chrome_traces import op
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.importers import import_trace
from neuron_explorer.trace.store import load

STAMP = b"V1206 15:24:45.403000 1667746 torch/_dynamo/utils.py:1288] "
LOG = b"\n".join([
    STAMP + b'{"str": ["a.py", 0]}',
    STAMP + b'{"dynamo_start": {"stack": [{"line": 3, "name": "f", "filename": 0}]}, "frame_id": 0, '
    b'"frame_compile_id": 0, "attempt": 0}',
    STAMP + b'{"dynamo_output_graph": {"sizes": {}}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, '
    b'"has_payload": "d41d8cd98f00b204e9800998ecf8427e"}',
    STAMP + b'{"compilation_metrics": {"co_name": "f", "co_filename": "a.py", "co_firstlineno": 1, '
    b'"start_time": 1733498685.4, "guard_count": 2}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}', b"",
])  # fmt: skip
NEURON = json.dumps({
    "Summary": [{"total_time": 1000}],
    "Instruction": [{"timestamp": n * 10, "duration": 5, "opcode": "MATMUL", "engine": "TensorE", "subgroup": "q0",
                     "compiler_opcode": "Matmult", "bir_instruction_name": f"i{n}", "lnc_idx": 0} for n in range(4)],
    "dma": [{"timestamp": 3, "duration": 4, "dma_queue": "q", "dma_engine": 1, "transfer_size": 64}],
}).encode()  # fmt: skip
TORCH = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
    op("aten::add", 1, 5, {"External id": 1, "Input Dims": [[1]], "Python id": 1}),
    {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"},
    {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 3, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 2,
     "args": {"External id": 1, "stream": 7, "device": 0, "correlation": 4}},
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "python", "labels": "GPU 0"}},
]}).encode()  # fmt: skip
ODD = [b"-1", b"NaN", b"Infinity", b"null", b"[]", b"{}", b'"x"', b'"1.5"', b"9223372036854775808", b"1e300", b"true",
       b"[" * 70 + b"]" * 70, b'"\xff\x01"', b"123456789012345678901234567890", b'""', b"-0.0"]  # fmt: skip


def places(data: bytes) -> list[tuple[int, int]]:
    """Where values stand: after a colon, up to the next comma or bracket."""
    found = []
    for at, byte in enumerate(data):
        if byte == ord(":") and at + 1 < len(data):
            end = next((e for e in range(at + 1, len(data)) if data[e] in b",}]\n"), len(data))
            found.append((at + 1, end))
    return found


@st.composite
def changed(draw: Any, data: bytes) -> bytes:
    """Values of other kinds, parts twice or missing, two writers at once, an end too early."""
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(["value", "value", "twice", "drop", "mix", "cut"]))
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(1, 120))
        if what == "value" and (spots := places(data)):
            start, end = draw(st.sampled_from(spots))
            data = data[:start] + draw(st.sampled_from(ODD)) + data[end:]
        elif what == "twice":
            data = data[:at] + data[at : at + size] * 2 + data[at + size :]
        elif what == "drop":
            data = data[:at] + data[at + size :]
        elif what == "mix":
            data = data[:at] + data + data[at:]
        elif what == "cut":
            data = data[: max(at, 200)]
    return data[:20_000]


@pytest.mark.parametrize("name", ["log", "neuron", "torch"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_by_its_own_parts(tmp_path: Path, name: str, data: st.DataObject) -> None:
    path, output = tmp_path / "input", tmp_path / "out.parquet"
    path.write_bytes(data.draw(changed({"log": LOG, "neuron": NEURON, "torch": TORCH}[name])))
    try:
        report = import_trace(path, output, overwrite=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error) and error.exit_code == 4
    else:
        with load(report.output) as trace:
            rows = trace.read(("start", "id", "detail")).to_pylist()
            assert trace.metadata["counts"]["events"] == len(rows)
            json.dumps(trace.metadata, allow_nan=False)
        assert len({r["id"] for r in rows}) == len(rows) and all(r["start"] >= 0 for r in rows)
    assert {p.name for p in tmp_path.iterdir()} <= {"input", "out.parquet"}


@pytest.mark.parametrize("name", ["log", "neuron", "torch"])
def test_unchanged_they_are_traces(tmp_path: Path, name: str) -> None:
    path = tmp_path / "input"
    path.write_bytes({"log": LOG, "neuron": NEURON, "torch": TORCH}[name])
    assert sum(import_trace(path, tmp_path / "out.parquet").read.values()) > 0


def test_a_text_of_a_hundred_megabytes_takes_no_memory(tmp_path: Path) -> None:
    """One string, packed; made and read piece by piece: the reader keeps 16 MiB of an event and no more."""
    import resource

    path = tmp_path / "long.json.gz"
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(packer.compress(TORCH[:-2] + b',{"ph":"X","ts":9,"dur":1,"pid":1,"tid":1,"name":"'))
        piece = b"x" * (1 << 20)
        for _ in range(100):
            file.write(packer.compress(piece))
        file.write(packer.compress(b'"},' + json.dumps(op("aten::last", 20, 1)).encode() + b"]}") + packer.flush())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = import_trace(path, tmp_path / "out.parquet")
    assert report.read["events"] == 3
    assert {s.what for s in report.losses} >= {"events longer than 16 MiB"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 120 << 10
