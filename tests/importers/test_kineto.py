"""What the importer makes of torch.profiler's traces, of every dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chrome_traces import COLUMNS, SHARED, event, imported, op, public, rows_of, write

from neuron_explorer.trace.importers import default_output, find, import_trace
from neuron_explorer.trace.store import load

FLOAT = {"Input type": ["float", "Scalar"], "Input Dims": [[2, 3], []], "Concrete Inputs": ["", "1"],
         "Input Strides": [[3, 1], []]}  # fmt: skip


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in rows}


def kernel(ts: float, dur: float = 4, **more: Any) -> dict[str, Any]:
    args = {"External id": 7, "device": 0, "stream": 7, "correlation": 55, "grid": [1, 1, 1]}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args} | more


MODERN = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 7"}},
    event("ProfilerStep#3", 0.5, 200, cat="user_annotation", args={"External id": 1, "Ev Idx": 0}),
    event("train.py(3): main", 0, 300, cat="python_function", args={"Python id": 1, "Python parent id": None}),
    event("nn.Module: Net_0", 1, 100, cat="python_function", args={"Python id": 2, "Python parent id": 1}),
    event("torch/nn/modules/linear.py(110): forward", 2, 90, cat="python_function", args={"Python id": 3}),
    op("aten::linear", 10.001, 40, {"External id": 6, "Sequence number": 9, "Fwd thread id": 0, "Ev Idx": 1, **FLOAT}),
    op("aten::addmm", 12, 30.5, {"External id": 7, "Sequence number": 9, "Fwd thread id": 0, "Ev Idx": 2}),
    event("cudaLaunchKernel", 20, 5, cat="cuda_runtime", args={"External id": 7, "cbid": 211, "correlation": 55}),
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 55, "pid": 1, "tid": 1, "ts": 20},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 55, "pid": 0, "tid": 7, "ts": 30, "bp": "e"},
    kernel(30),
    event("autograd::engine::evaluate_function: AddmmBackward0", 120, 30, cat="cpu_op", tid=2,
          args={"External id": 8, "Sequence number": 9, "Fwd thread id": 1}),
    event("AddmmBackward0", 121, 28, cat="cpu_op", tid=2,
          args={"External id": 9, "Sequence number": 9, "Fwd thread id": 1}),
    event("aten::mm", 122, 20, cat="cpu_op", tid=2, args={"External id": 10}),
    event("Optimizer.step#SGD.step", 160, 30, cat="user_annotation", args={"External id": 11}),
    op("aten::add_", 161, 10, {"External id": 12}),
    event("cudaDeviceSynchronize", 191, 8, cat="cuda_runtime", args={"cbid": 165, "correlation": 56}),
]  # fmt: skip


def test_a_modern_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "run.pt.trace.json.gz", MODERN, baseTimeNanoseconds=1_700_000_000_000_000_000,
                 distributedInfo={"rank": 3, "world_size": 8},
                 deviceProperties=[{"id": 0, "name": "H100"}])  # fmt: skip
    with imported(path) as (trace, rows):
        meta = trace.metadata
        row = by_name(rows)
        stack = [(f.file, f.line, f.function, f.user) for f in trace.stack(row["aten::addmm"]["stack"])]
    assert meta["start_unix_ns"] == 1_700_000_000_000_000_000 + 0
    assert (meta["rank"], meta["world_size"]) == (3, 8)
    assert meta["device"] == {"type": "cuda", "name": "H100", "emulated": False}
    assert [(lane["kind"], lane["name"]) for lane in meta["lanes"]] == [
        ("thread", "main thread"), ("thread", "thread 2"), ("steps", "steps"),
        ("device", "cuda:0 stream 7")]  # fmt: skip
    assert "train.py(3): main" not in row and "nn.Module: Net_0" not in row
    linear, addmm = row["aten::linear"], row["aten::addmm"]
    assert (linear["start"], linear["duration"], linear["self"]) == (10_001, 40_000, 9_500)
    assert (addmm["parent"], addmm["depth"], addmm["phase"]) == (linear["id"], 1, "forward")
    assert linear["shapes"] == "[[2,3],null]" and linear["strides"] == "[[3,1],null]"
    assert linear["dtypes"] == '["float32",null]' and linear["arguments"] == "[null,1]"
    assert (linear["file"], linear["line"], linear["function"], linear["attribution"]) == (
        "train.py", 3, "main", "definition")  # fmt: skip
    assert linear["module"] == "Net_0" and (linear["external_id"], linear["source_index"]) == (6, 1)
    assert stack == [("torch/nn/modules/linear.py", 110, "forward", False), ("", -1, "nn.Module: Net_0", False),
                     ("train.py", 3, "main", True)]  # fmt: skip
    launch, gemm = row["cudaLaunchKernel"], row["gemm"]
    assert (launch["kind"], launch["parent"], launch["correlation_id"]) == ("launch", addmm["id"], 55)
    assert (gemm["kind"], gemm["device"], gemm["stream"], gemm["correlation"]) == ("device", "cuda:0", 7, addmm["id"])
    assert (gemm["line"], gemm["module"], gemm["phase"], gemm["step"]) == (3, "Net_0", "forward", 3)
    assert json.loads(gemm["detail"])["grid"] == [1, 1, 1]
    node, inside = row["AddmmBackward0"], row["aten::mm"]
    for each in (node, inside):
        assert (each["phase"], each["line"], each["module"], each["attribution"]) == (
            "backward", 3, "Net_0", "definition")  # fmt: skip
    assert node["kind"] == "autograd" and node["correlation"] == addmm["id"]
    assert (row["aten::add_"]["phase"], row["cudaDeviceSynchronize"]["kind"]) == ("optimizer", "sync")
    step = row["ProfilerStep#3"]
    assert (step["kind"], step["step"], linear["step"], linear["period"]) == ("step", 3, 3, "warmup")
    assert meta["steps"]["rule"] == "prof.step" and meta["capabilities"]["stacks"]["observed"]
    assert "definition" in meta["capabilities"]["stacks"]["reason"]


def test_the_dialect_of_2021(tmp_path: Path) -> None:
    stack = "/home/u/env/lib/python3.7/site-packages/torch/nn/modules/module.py(889): _call_impl;train.py(42): <module>"
    args = {"Device": 9, "External id": 2, "Trace name": "PyTorch Profiler", "Trace iteration": 0}
    path = write(tmp_path / "old.json", [
        {"ph": "X", "cat": "Operator", "name": "aten::conv2d", "pid": 9, "tid": "9", "ts": 1623142623460111, "dur": 25,
         "args": args | {"Input dims": [[8, 3]], "Input type": ["float"], "Call stack": stack}},
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1623142623460121,
         "args": {"Device Type": 1, "Device Id": 0, "Bytes": -64}},
        {"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": "9", "ts": 1623142623460112,
         "dur": 8, "args": {"cbid": 211, "correlation": 34, "external id": 2, "external ts": 1623142623460111}},
        {"ph": "X", "cat": "Kernel", "name": "k", "pid": 0, "tid": "stream 7", "ts": 1623142623460200, "dur": 2,
         "args": {"device": 0, "stream": 7, "correlation": 34, "external id": 2}},
        {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": "stream 7",
         "ts": 1623142623460300, "dur": 2, "args": {"device": 0, "stream": 7, "bytes": 96}},
    ])  # fmt: skip
    with imported(path) as (trace, rows):
        row = by_name(rows)
        assert trace.metadata["start_unix_ns"] == 1623142623460111000
    conv, work = row["aten::conv2d"], row["k"]
    assert (conv["file"], conv["line"], conv["attribution"]) == ("train.py", 42, "stack")
    assert conv["thread"] == row["cudaLaunchKernel"]["thread"] == 0, "a tid is the same as text and as a number"
    assert (conv["phase"], conv["shapes"]) == ("forward", "[[8,3]]")
    assert (row["release"]["kind"], row["release"]["device"]) == ("memory", "cuda:0")
    assert json.loads(row["release"]["detail"])["bytes"] == -64
    assert work["correlation"] == conv["id"] and (work["file"], work["line"]) == ("train.py", 42)
    copy = row["Memcpy HtoD (Pageable -> Device)"]
    assert copy["kind"] == "copy"
    assert json.loads(copy["detail"]).items() >= {"bytes": 96, "direction": "host_to_device"}.items()


@pytest.mark.parametrize(
    ("runtime", "work", "device"),
    [("mtia_runtime", "mtia_ccp_events", "mtia:2"), ("privateuse1_runtime", "privateuse1_kernel", "privateuseone:2"),
     ("xpu_runtime", "kernel", "xpu:2"), ("cuda_driver", "kernel", "cuda:2")],
)  # fmt: skip
def test_every_backend_links_its_work_to_operators(tmp_path: Path, runtime: str, work: str, device: str) -> None:
    path = write(tmp_path / "a.json", [
        op("aten::add", 1, 10, {"External id": 5}),
        event("launchThing", 2, 3, cat=runtime, args={"correlation": 77}),
        {"ph": "X", "cat": work, "name": "w", "pid": 2, "tid": 4, "ts": 8, "dur": 9, "args": {"correlation": 77}},
    ])  # fmt: skip
    row = by_name(rows_of(path))
    assert row["launchThing"]["kind"] == "launch"
    assert (row["w"]["device"], row["w"]["correlation"]) == (device, row["aten::add"]["id"])


def test_collectives_say_group_size_and_bytes(tmp_path: Path) -> None:
    args = {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 8, "Out msg nelems": 8,
            "Group size": 4, "Process Group Name": "0", "Process Group Ranks": [0, 1, 2, 3]}  # fmt: skip
    path = write(tmp_path / "a.json", [
        op("c10d::allreduce_", 1, 10), op("record_param_comms", 2, 5, {"External id": 3, **args}),
        kernel(20, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL", args={"External id": 3, **args}),
        event("nccl:all_reduce", 2, 6, cat="user_annotation"),
    ])  # fmt: skip
    row = by_name(rows_of(path))
    for name in ("record_param_comms", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"):
        detail = json.loads(row[name]["detail"])
        assert row[name]["kind"] == "collective"
        assert (detail["operation"], detail["group_size"], detail["bytes_in"], detail["ranks"]) == (
            "allreduce", 4, 16, [0, 1, 2, 3])  # fmt: skip
    assert row["nccl:all_reduce"]["kind"] == "collective"


def test_links_of_backward_without_sequence_numbers(tmp_path: Path) -> None:
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1}
    path = write(tmp_path / "a.json", [
        op("aten::mul", 1, 10, {"Call stack": "a.py(5): f"}),
        {"ph": "s", "tid": 1, "ts": 1} | flow,
        op("MulBackward0", 50, 8, tid=2), op("aten::mul_", 51, 3, tid=2),
        {"ph": "f", "bp": "e", "tid": 2, "ts": 50} | flow,
    ])  # fmt: skip
    with imported(path) as (trace, rows):
        row = by_name(rows)
        assert trace.metadata["import"]["skipped"][0]["what"] == "flows"
    assert row["MulBackward0"]["correlation"] == row["aten::mul"]["id"]
    for name in ("MulBackward0", "aten::mul_"):
        assert (row[name]["line"], row[name]["attribution"]) == (5, "forward")


def test_steps_by_the_optimizer(tmp_path: Path) -> None:
    events = []
    for n in range(3):
        events += [op("aten::mm", 100 * n + 10, 20), event("Optimizer.step#Adam.step", 100 * n + 40, 10,
                                                           cat="user_annotation")]  # fmt: skip
    with imported(write(tmp_path / "a.json", events)) as (trace, rows):
        assert trace.metadata["steps"] | {"note": ""} == {
            "rule": "optimizer", "rule_text": "by the optimizer's step()", "count": 3, "steady": 2,
            "note": ""}  # fmt: skip
    assert [r["start"] for r in rows] == sorted(r["start"] for r in rows)
    assert [(r["name"], r["start"], r["duration"]) for r in rows if r["kind"] == "step"] == [
        ("step 0", 0, 40_000), ("step 1", 40_000, 100_000), ("step 2", 140_000, 100_000)]  # fmt: skip
    assert [r["step"] for r in rows if r["name"] == "aten::mm"] == [0, 1, 2]
    assert len({r["id"] for r in rows}) == len(rows)


def test_memory_events_name_blocks(tmp_path: Path) -> None:
    def memory(ts: int, size: int, address: int) -> dict[str, Any]:
        return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts,
                "args": {"Total Reserved": 100, "Total Allocated": 50 + ts, "Bytes": size, "Addr": address,
                         "Device Id": -1, "Device Type": 0, "Ev Idx": ts}}  # fmt: skip

    events = [memory(1, 64, 4096), memory(2, 32, 8192), memory(3, -64, 4096), memory(4, 16, 4096)]
    path = write(tmp_path / "a.json", events)
    rows = rows_of(path)
    assert [(r["name"], r["correlation"], r["device"]) for r in rows] == [
        ("allocate", 0, "cpu"), ("allocate", 1, "cpu"), ("release", 0, "cpu"), ("allocate", 2, "cpu")]  # fmt: skip
    assert json.loads(rows[0]["detail"]).items() >= {
        "bytes": 64, "address": 4096, "allocated": 51, "reserved": 100, "Device Type": 0}.items()  # fmt: skip


def test_compiled_regions_keep_their_compile_id(tmp_path: Path) -> None:
    rows = rows_of(write(tmp_path / "a.json", [op("Torch-Compiled Region: 0/1", 1, 5)]))
    assert (rows[0]["kind"], rows[0]["compile_id"]) == ("launch", "0/1")


def test_several_ranks_become_one_trace_each(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for rank in range(3):
        write(run / f"rank-{rank}.pt.trace.json.gz", MODERN, distributedInfo={"rank": rank, "world_size": 3})
    (run / "notes.txt").write_text("nothing")
    write(run / "broken.json", '{"deviceProperties": [], "traceEvents": [{"ph": "X", "ts": tru}]}')
    report = import_trace(run)
    made = sorted(p.name for p in report.output.iterdir())
    assert made == [f"rank-{n}.parquet" for n in range(3)]
    assert (report.files, report.read["traces"]) == (4, 3)
    assert report.losses[0].what == "files that hold nothing usable" and "broken.json" in report.losses[0].why
    assert [load(report.output / name).metadata["rank"] for name in made] == [0, 1, 2]


SMALL = [f for f in (*SHARED.glob("*.json*"), *SHARED.glob("*/*.json*")) if f.stat().st_size < 30_000]


@pytest.mark.parametrize("source", ["modern", *SMALL], ids=lambda s: s if isinstance(s, str) else s.name)
def test_the_twin_makes_the_same_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | Path) -> None:
    from neuron_explorer.errors import BadTraceError

    path = tmp_path / "a.json"
    if isinstance(source, Path):
        path = tmp_path / source.name
        path.write_bytes(source.read_bytes())
    else:
        write(path, MODERN, deviceProperties=[])
    answers = []
    for native in ("1", "0"):
        monkeypatch.setenv("NEURON_EXPLORER_NATIVE", native)
        try:
            with imported(path) as (trace, rows):
                notes = trace.metadata["import"].pop("notes")
                answers.append((trace.metadata["import"], trace.metadata["lanes"], rows))
        except BadTraceError as error:
            answers.append(str(error))
            continue
        assert native == "1" or "without native code" in " ".join(notes)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("in_memory", [1, 3, 8])
def test_windows_on_the_disk_make_the_same_trace(tmp_path: Path, in_memory: int) -> None:
    from neuron_explorer.trace.importers.chrome_json.importing import import_file
    from neuron_explorer.trace.importers.kineto.categories import KINETO, device_type, step_number

    path = write(tmp_path / "a.json", MODERN * 2)
    first = rows_of(path)
    output = tmp_path / "small.parquet"
    import_file(path, output, KINETO, device_type=device_type, step_number=step_number, in_memory=in_memory)
    with load(output) as trace:
        assert trace.read(COLUMNS).to_pylist() == first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.json.parquet", "small.parquet"]


def test_windows_of_events_that_begin_together(tmp_path: Path) -> None:
    from neuron_explorer.trace.importers.chrome_json.importing import import_file
    from neuron_explorer.trace.importers.kineto.categories import KINETO

    events = [op(f"aten::f{n}", 7 if n % 3 else n, 2, {"External id": n}) for n in range(60)]
    output = tmp_path / "small.parquet"
    import_file(write(tmp_path / "a.json", events), output, KINETO, in_memory=6)
    with load(output) as trace:
        rows = trace.read(["start", "external_id"]).to_pylist()
    assert [r["start"] for r in rows] == sorted(r["start"] for r in rows)
    assert sorted(r["external_id"] for r in rows) == list(range(60))


def test_what_torch_writes_today(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    path = tmp_path / "now.json.gz"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True, with_modules=True) as prof:
        net(torch.ones(2, 4)).sum().backward()
    prof.export_chrome_trace(str(path))
    with imported(path) as (trace, rows):
        assert not [s for s in trace.metadata["import"]["skipped"] if not s["harmless"]]
        assert trace.metadata["start_unix_ns"] > 1_600_000_000 * 10**9
    addmm = next(r for r in rows if r["name"] == "aten::addmm")
    assert addmm["shapes"].startswith("[[4],[2,4],[4,4]") and addmm["module"].endswith("Linear_0")
    assert (addmm["phase"], addmm["attribution"]) == ("forward", "definition")
    node = next(r for r in rows if r["name"] == "AddmmBackward0")
    assert (node["correlation"], node["module"], node["phase"]) == (addmm["id"], addmm["module"], "backward")


@pytest.mark.parametrize("name", ["hta_ns_resolution_rank-0.pt.trace.json.gz", "kineto_resnet50_nw0.pt.trace.json.gz",
                                  "tracelens_h100_qwen0.5b.json.gz"])  # fmt: skip
def test_public_traces_keep_every_time_shape_and_link(tmp_path: Path, name: str) -> None:
    import gzip
    from decimal import Decimal

    source = public(name)
    path = tmp_path / name
    path.write_bytes(source.read_bytes())
    document = json.loads(gzip.decompress(source.read_bytes()), parse_float=Decimal)
    left_out = ("python_function", "Trace")
    events = [e for e in document["traceEvents"] if e["ph"] == "X" and e.get("cat") not in left_out]
    with imported(path, ("name", "start", "duration", "kind", "correlation", "shapes")) as (trace, rows):
        start = trace.metadata["start_unix_ns"] - int(document.get("baseTimeNanoseconds") or 0)
        kept = trace.metadata["counts"]["by_kind"]
    expected = sorted((int(Decimal(e["ts"]) * 1000), int(Decimal(e["dur"]) * 1000), e["name"]) for e in events)
    found = [(r["start"] + start, r["duration"], r["name"]) for r in rows if r["kind"] != "memory"]
    assert sorted(found) == expected
    on_device = sum(e["cat"] in ("kernel", "Kernel") for e in events)
    linked = [r for r in rows if r["kind"] in ("device", "collective", "copy") and r["correlation"] >= 0]
    assert len(linked) > 0.5 * on_device and kept["op"] > 1000
    dims = sum(any(e.get("args", {}).get("Input Dims", e.get("args", {}).get("Input dims", []))) for e in events)
    assert sum(r["shapes"] is not None and any(c.isdigit() for c in r["shapes"]) for r in rows) >= dims * 0.9


def test_the_format_is_known_by_its_content(tmp_path: Path) -> None:
    for name, events in (("x.bin", MODERN), ("y", [{**MODERN[6]}])):
        importer = find(write(tmp_path / name, events))
        assert importer is not None and importer.name == "kineto"
    other = find(write(tmp_path / "chrome.json", '[{"ph":"X","name":"a","ts":1,"dur":1}]'))
    assert other is not None and other.name == "chrome_json"
    assert find(write(tmp_path / "no.json", '{"a": 1}')) is None
    assert default_output(tmp_path / "run.pt.trace.json.gz").name == "run.parquet"


@pytest.mark.parametrize("in_memory", [None, 2])
def test_calls_of_python_alone_give_a_call_tree(tmp_path: Path, in_memory: int | None) -> None:
    """``with_stack`` without operators: each call is a row, its own time what no other call took."""
    from neuron_explorer.analysis.call_tree import call_tree
    from neuron_explorer.trace.importers.chrome_json.importing import import_file
    from neuron_explorer.trace.importers.kineto.categories import KINETO
    from neuron_explorer.trace.store import load

    def call(name: str, ts: float, dur: float) -> dict[str, Any]:
        return event(name, ts, dur, cat="python_function", args={"Python id": 1})

    path = write(tmp_path / "a.json", [
        call("run.py(1): <module>", 0, 100), call("run.py(5): main", 10, 80), call("run.py(9): f", 20, 30),
        call("run.py(9): f", 60, 20), call("run.py(12): g", 65, 5),
    ])  # fmt: skip
    report = import_file(path, tmp_path / "a.parquet", KINETO, in_memory=in_memory)
    with load(tmp_path / "a.parquet") as trace:
        rows = trace.read(["name", "kind", "self", "duration", "line", "depth"]).to_pylist()
        tree = call_tree(trace, "all").nodes
        stacks = trace.frames().num_rows
    assert [(r["name"], r["self"], r["depth"]) for r in rows] == [
        ("run.py(1): <module>", 20_000, 0), ("run.py(5): main", 30_000, 1), ("run.py(9): f", 30_000, 2),
        ("run.py(9): f", 15_000, 2), ("run.py(12): g", 5_000, 3),
    ]  # fmt: skip
    assert {r["kind"] for r in rows} == {"op"} and [r["line"] for r in rows] == [1, 5, 9, 9, 12]
    assert stacks == 4
    totals = {(node.kind, node.name): node.total_ns for node in tree}
    assert totals["frame", "main"] == 80_000 and totals["frame", "f"] == 50_000 and totals["frame", "g"] == 5_000
    assert any("calls of Python" in note for note in report.notes)
    assert not any(s.what == "Python calls" for s in report.skipped)
