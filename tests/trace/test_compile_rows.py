"""Compilations become rows: nested, on lanes of their own, linked to the launches of what they made."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from neuron_explorer.trace import convert as conversion
from neuron_explorer.trace import spool
from neuron_explorer.trace.compile_rows import compile_trace
from neuron_explorer.trace.compile_spool import CompileWriter, path_in
from neuron_explorer.trace.compiles import (
    Compilation,
    Compiles,
    GraphBreak,
    GraphNode,
    LimitReached,
    Phase,
    Place,
    Reason,
    Recompile,
)
from neuron_explorer.trace.paths import PathRules
from neuron_explorer.trace.store import load
from neuron_explorer.trace.write import TraceWriter

START = 1_000_000  # of the recording that the fixture makes
PROJECT = "/project"
MODEL = Place("/project/model.py", 10, "Model.forward")
CALL = Place("/project/train.py", 40, "main")
COLUMNS = (
    "kind name start duration self id parent depth lane process thread file line function outermost_on_line "
    "compile_id correlation step period detail attribution"
)


def compilation(key, start, end, **more):
    fields = {"compile_id": f"0/{key}", "attempt": 0, "thread": 70, "place": MODEL, "callers": (CALL,), **more}
    return Compilation(key=key, start=START + start, end=-1 if end is None else START + end, **fields)


def phase(key, name, start, end, thread=70):
    return Phase(key, name, f"torch.{name}", START + start, START + end, thread)


def reason(**more):
    fields = {
        "text": "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5", "cause": "size",
        "guard": "tensor 'x' size mismatch at index 0", "source": "x", "expected": "4", "actual": "5",
        "dimension": 0, "entry": "0/0", "place": Place("/project/model.py", 12, "forward"), **more,
    }  # fmt: skip
    return Reason(**fields)


def keep(one, *records, pid=100):
    writer = CompileWriter(path_in(one.spool, pid))
    for record in records:
        kind = type(record).__name__
        if isinstance(record, Compilation) and record.end < 0:
            writer.begin(record)
        else:
            name = {"GraphBreak": "graph_break", "LimitReached": "limit"}.get(kind, kind.lower())
            getattr(writer, name)(record)
    writer.close()


@pytest.fixture
def program(recording):
    """A main thread (system id 70) that launches regions 0/0 and 0/1, each twice; a step each."""
    one = recording(capabilities={"compile": {"observed": True, "reason": ""}})
    process = one.process()
    thread = process.thread(name="main thread", os_thread=70)
    stack = process.stack("train.py:40:main")
    for start, region in ((2000, "0/0"), (3000, "0/0"), (6000, "0/1"), (7000, "0/1")):
        thread.op(f"Torch-Compiled Region: {region}", start, start + 500, kind=spool.RANGE, stack=stack)
    for number, end in enumerate((2600, 3600, 6600, 7600)):
        thread.mark(spool.STEP, end, number)
    return one


def by_name(rows, name, kind=None):
    return next(r for r in rows if r["name"] == name and kind in (None, r["kind"]))


def test_a_recompile_row_holds_the_compile_row_and_that_its_phases(program):
    keep(
        program,
        compilation(0, 1000, 1900), compilation(1, 4000, 5900, nth=2, limit=8),
        phase(1, "bytecode_tracing", 4100, 4800), phase(1, "backend", 4800, 5800),
        phase(1, "code_generation", 5000, 5600), Recompile(1, (reason(),), "0/0"),
    )  # fmt: skip
    rows = program.rows(COLUMNS)
    compiles = [r for r in rows if r["kind"] in ("compile", "recompile")]
    assert [(r["kind"], r["name"], r["start"], r["duration"], r["self"], r["depth"]) for r in compiles] == [
        ("compile", "Model.forward", 1000, 900, 900, 0),
        ("recompile", "Model.forward", 4000, 1900, 0, 0),
        ("compile", "Model.forward", 4000, 1900, 200, 1),
        ("compile", "bytecode_tracing", 4100, 700, 700, 2),
        ("compile", "backend", 4800, 1000, 400, 2),
        ("compile", "code_generation", 5000, 600, 600, 3),
    ]
    first, again, inner, tracing, backend, code = compiles
    assert (inner["parent"], tracing["parent"], backend["parent"], code["parent"]) == (
        again["id"], inner["id"], inner["id"], backend["id"],
    )  # fmt: skip
    assert first["parent"] == again["parent"] == -1
    assert {(r["file"], r["line"], r["function"]) for r in compiles} == {("model.py", 10, "Model.forward")}
    assert {r["compile_id"] for r in compiles[1:]} == {"0/1"}
    assert [r["outermost_on_line"] for r in compiles] == [True, True, False, False, False, False]
    assert {(r["process"], r["thread"], r["attribution"]) for r in compiles} == {(100, 0, "stack")}
    assert len({r["id"] for r in rows}) == len(rows)


def test_details(program):
    graph = (
        GraphNode("aten.mm", Place("/project/model.py", 11, "forward"), "layers.0", "[[4, 8]]", '["float32"]'),
        GraphNode("output"),
    )
    keep(
        program,
        compilation(
            1, 4000, 5900, nth=2, limit=8, backend="inductor", graph=graph, graph_ops=2, cache={"fx_graph": "miss"},
            guards=("L['x'].size()[0] == 4  # y = x * 2  # project/model.py:11 in forward",), guard_count=1,
            inputs='{"x": [4, 8]}', failure={"type": "E", "file": "/project/model.py", "line": 3},
        ),
        Phase(1, "backend", "compile_fx", START + 4100, START + 5000, 70, {"kernels": 2, "phase": "mine"}),
        Recompile(1, (reason(), reason(cause="dtype", entry="0/x", place=None)), "0/0"),
    )  # fmt: skip
    rows = program.rows(COLUMNS)
    details = {(r["kind"], r["name"]): json.loads(r["detail"]) for r in rows if r["kind"] in ("compile", "recompile")}
    assert details["recompile", "Model.forward"] == {
        "cause": "size", "guard": "tensor 'x' size mismatch at index 0", "source": "x", "expected": "4", "actual": "5",
        "dimension": 0, "caller_file": "train.py", "caller_line": 40, "caller_function": "main", "nth": 2, "limit": 8,
        "previous_compile_id": "0/0", "backend": "inductor", "trigger": "forward",
        "reasons": [
            {"entry": "0/0", "cause": "size", "guard": "tensor 'x' size mismatch at index 0", "source": "x",
             "expected": "4", "actual": "5", "dimension": 0, "file": "model.py", "line": 12,
             "text": "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"},
            {"entry": "0/x", "cause": "dtype", "guard": "tensor 'x' size mismatch at index 0", "source": "x",
             "expected": "4", "actual": "5", "dimension": 0, "file": None, "line": -1,
             "text": "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"},
        ],
    }  # fmt: skip
    assert details["compile", "Model.forward"] == {
        "attempt": 0, "backend": "inductor", "trigger": "forward", "outcome": "ok", "nth": 2, "limit": 8,
        "dynamic": "", "callers": [{"file": "train.py", "line": 40, "function": "main"}], "restart_reasons": [],
        "failure": {"type": "E", "file": "model.py", "line": 3}, "guard_count": 1,
        "guards": ["L['x'].size()[0] == 4  # y = x * 2  # model.py:11 in forward"], "graph_ops": 2,
        "graph_truncated": False, "cache": {"fx_graph": "miss"}, "tracing_ops": -1, "inputs": {"x": [4, 8]},
        "graph": [
            {"op": "aten.mm", "file": "model.py", "line": 11, "function": "forward", "module": "layers.0",
             "shapes": "[[4, 8]]", "dtypes": '["float32"]'},
            {"op": "output", "file": None, "line": -1, "function": "", "module": "", "shapes": "", "dtypes": ""},
        ],
    }  # fmt: skip
    assert details["compile", "backend"] == {"kernels": 2, "label": "compile_fx", "phase": True}


def test_a_recompile_without_a_reason(program):
    keep(program, compilation(1, 4000, 5900, callers=()), Recompile(1, ()))
    detail = json.loads(by_name(program.rows(COLUMNS), "Model.forward", "recompile")["detail"])
    assert (detail["cause"], detail["guard"], detail["reasons"]) == ("no_reason", "", [])
    assert (detail["caller_file"], detail["caller_line"], detail["dimension"]) == (None, -1, -1)


def test_launches_are_linked_to_the_compilation_that_made_them(program):
    keep(
        program,
        compilation(0, 100, 300, compile_id="0/0", outcome="restarted"), compilation(1, 300, 1900, compile_id="0/0"),
        compilation(2, 4000, 5900, compile_id="0/1"),
        compilation(3, 2510, 2900, compile_id="0/0", trigger="backward"),
    )  # fmt: skip
    rows = program.rows(COLUMNS)
    ids = {r["id"]: (r["start"], r["compile_id"]) for r in rows if r["kind"] == "compile"}
    launches = [(r["start"], ids[r["correlation"]]) for r in rows if r["kind"] == "launch"]
    assert launches == [(2000, (300, "0/0")), (3000, (300, "0/0")), (6000, (4000, "0/1")), (7000, (4000, "0/1"))]


def test_what_was_compiled_before_the_recording_or_anew_after_a_reset(program):
    keep(program, compilation(0, 100, 1900, compile_id="0/0"), compilation(1, 2700, 2900, compile_id="0/0"))
    rows = program.rows(COLUMNS)
    ids = {r["id"]: r["start"] for r in rows if r["kind"] == "compile"}
    assert [ids.get(r["correlation"], -1) for r in rows if r["kind"] == "launch"] == [100, 2700, -1, -1]


def test_graph_breaks_and_limits_are_instants(program):
    keep(
        program,
        compilation(0, 1000, 1900), phase(0, "bytecode_tracing", 1000, 1500),
        GraphBreak(0, START + 1200, 70, Place("/project/model.py", 14, "forward"), "call to print\nmore", "",
                   "cannot", ("do not",), (CALL,), 3),
        GraphBreak(0, START + 1200, 70, MODEL, "another", "second"), GraphBreak(0, START + 2500, 70, MODEL, "", "late"),
        LimitReached(START + 8000, 70, MODEL, 8, callers=(CALL,), reasons=(reason(),)),
    )  # fmt: skip
    rows = program.rows(COLUMNS)
    compiled, tracing = by_name(rows, "Model.forward"), by_name(rows, "bytecode_tracing")
    broke = by_name(rows, "call to print", "graph_break")
    assert (broke["parent"], broke["depth"], broke["duration"], broke["self"]) == (tracing["id"], 2, 0, 0)
    assert (broke["file"], broke["line"], broke["function"], broke["compile_id"]) == ("model.py", 14, "forward", "0/0")
    assert json.loads(broke["detail"]) == {
        "reason": "call to print\nmore", "type": "", "explanation": "cannot", "hints": ["do not"], "count": 3,
        "callers": [{"file": "train.py", "line": 40, "function": "main"}],
    }  # fmt: skip
    again, late = by_name(rows, "second"), by_name(rows, "late")
    assert (again["parent"], again["depth"]) == (tracing["id"], 2)
    assert (late["parent"], late["depth"], late["start"]) == (compiled["id"], 1, 1900)  # as late as it can be inside
    limit = by_name(rows, "recompile_limit", "warning")
    assert (limit["start"], limit["duration"], limit["file"], limit["line"]) == (8000, 0, "model.py", 10)
    detail = json.loads(limit["detail"])
    assert (detail["limit"], detail["kind"], len(detail["reasons"])) == (8, "recompile_limit", 1)
    assert limit["lane"] == compiled["lane"]


def test_lanes_follow_the_threads_that_compile(recording):
    one = recording()
    process = one.process()
    for number, (name, os_thread) in enumerate((("main thread", 70), ("worker", 71))):
        process.thread(name=name, os_thread=os_thread).op("aten::relu", 10 + number, 20)
    keep(one, compilation(0, 100, 900), compilation(1, 200, 800, thread=71), compilation(2, 1000, 1100, thread=9))
    with one.trace() as trace:
        lanes = {lane["lane"]: lane["name"] for lane in trace.metadata["lanes"]}
        assert list(lanes.values()) == [
            "main thread", "compile · main thread", "worker", "compile · worker", "compile · other thread 1"
        ]  # fmt: skip
        rows = trace.read(["kind", "lane", "depth", "thread"], kinds=["compile"]).to_pylist()
    assert [(lanes[r["lane"]], r["depth"], r["thread"]) for r in rows] == [
        ("compile · main thread", 0, 0), ("compile · worker", 0, 1), ("compile · other thread 1", 0, -1)
    ]  # fmt: skip


def test_a_phase_on_a_helper_thread_has_a_lane_of_its_own(program):
    keep(program, compilation(0, 1000, 1900), phase(0, "kernel_compile", 1100, 1800, thread=75))
    rows = program.rows(COLUMNS)
    compiled, kernel = by_name(rows, "Model.forward"), by_name(rows, "kernel_compile")
    assert kernel["lane"] != compiled["lane"]
    assert (kernel["parent"], kernel["depth"], kernel["compile_id"]) == (-1, 0, "0/0")
    assert compiled["self"] == 900


def test_a_compilation_inside_another(program):
    keep(program, compilation(0, 1000, 1900), phase(0, "backend", 1100, 1800), compilation(1, 1200, 1700))
    rows = [r for r in program.rows(COLUMNS) if r["kind"] == "compile"]
    assert [(r["start"], r["depth"], r["self"]) for r in rows] == [(1000, 0, 200), (1100, 1, 200), (1200, 2, 500)]


def test_parts_that_stick_out_are_cut_and_what_overlaps_follows(program):
    keep(
        program,
        compilation(0, 1000, 1900), phase(0, "bytecode_tracing", 990, 1300), phase(0, "backend", 1200, 1950),
    )  # fmt: skip
    rows = [r for r in program.rows(COLUMNS) if r["kind"] == "compile"]
    assert [(r["name"], r["start"], r["duration"], r["depth"]) for r in rows] == [
        ("Model.forward", 1000, 900, 0), ("bytecode_tracing", 1000, 300, 1), ("backend", 1300, 600, 1)
    ]  # fmt: skip
    assert [r["self"] for r in rows] == [0, 300, 600]


def test_a_killed_compilation_is_unended(program):
    keep(program, compilation(0, 1000, 1900), compilation(1, 8000, None), phase(1, "bytecode_tracing", 8100, 8300))
    with program.trace(recovered=True) as trace:
        rows = trace.read(COLUMNS.split(), kinds=["compile"]).to_pylist()
        assert [(r["start"], r["duration"], r["self"], r["depth"]) for r in rows] == [
            (1000, 900, 900, 0), (8000, -1, -1, 0), (8100, 200, 200, 1)
        ]  # fmt: skip
        assert json.loads(rows[1]["detail"])["outcome"] == "unended"
        assert trace.metadata["counts"]["unended"] == 1
        assert trace.metadata["duration_ns"] >= 8300


def test_impossible_times(program):
    year = 400 * 86_400 * 10**9
    keep(
        program,
        compilation(0, 1000, 900), compilation(1, 2 * year, 2 * year + 1), compilation(2, 1500, 3 * year),
        phase(2, "backend", 1600, 1550), phase(2, "aot", 1600, 1700),
        GraphBreak(0, START + 2 * year, 70, MODEL, "late"),
    )  # fmt: skip
    with program.trace() as trace:
        rows = trace.read(COLUMNS.split()).to_pylist()
        assert trace.metadata["counts"]["quarantined"] == 5
        assert trace.metadata["duration_ns"] < 10_000
    found = [(r["name"], r["start"], r["duration"], r["self"]) for r in rows if r["kind"] == "compile"]
    assert found == [("Model.forward", 1000, -1, -1), ("Model.forward", 1500, -1, -1), ("aot", 1600, 100, 100)]


def test_what_ended_before_the_recording_is_left_out(program):
    keep(program, compilation(0, -500, -100), compilation(1, -400, 600), phase(1, "aot", -300, -200))
    rows = [r for r in program.rows(COLUMNS) if r["kind"] == "compile"]
    assert [(r["start"], r["duration"]) for r in rows] == [(0, 600)]


def test_steps_that_compile_are_not_steady(program):
    keep(program, compilation(0, 1000, 1900), compilation(1, 4000, 5900))
    with program.trace() as trace:
        steps = trace.read(["step", "period"], kinds=["step"]).to_pylist()
        compiled = trace.read(["step", "period"], kinds=["compile"]).to_pylist()
    assert [s["period"] for s in steps] == ["warmup", "steady", "compile", "steady"]
    assert [(c["step"], c["period"]) for c in compiled] == [(0, "warmup"), (2, "compile")]


def test_where_the_compilers_were_watched_nothing_is_inferred_from_gaps(recording):
    def steps(watched):
        one = recording()
        thread = one.process().thread(os_thread=70)
        for start in (0, 10_000_000, 20_000_000):
            region = f"Torch-Compiled Region: 0/{start}"
            thread.op("TorchDynamo Cache Lookup", start + 10, start + 20, kind=spool.RANGE)
            thread.op(region, start + 8_000_000, start + 8_000_100, kind=spool.RANGE)  # a gap of 8 ms before it
            thread.mark(spool.STEP, start + 9_000_000, start // 10_000_000)
        if watched:
            keep(one, compilation(0, 20_001_000, 21_000_000))
        return [r["period"] for r in one.rows("kind period") if r["kind"] == "step"]

    assert steps(watched=False) == ["warmup", "compile", "compile"]
    assert steps(watched=True) == ["warmup", "steady", "compile"]


def test_windows_give_the_same_rows(program, monkeypatch):
    keep(
        program,
        compilation(0, 1000, 1900), compilation(1, 4000, 5900), phase(1, "backend", 4800, 5800),
        Recompile(1, (reason(),), "0/0"), GraphBreak(1, START + 4900, 70, MODEL, "print"),
    )  # fmt: skip
    program.close()
    whole = conversion.convert(program.spool, program.output, keep_spool=True)
    with load(program.output) as trace:
        expected = trace.read(COLUMNS.split()).to_pylist()
    monkeypatch.setattr(conversion, "windows", lambda *_: [START + 1500, START + 4000, START + 4850, START + 6200])
    again = conversion.convert(program.spool, program.output)
    with load(program.output) as trace:
        rows = trace.read(COLUMNS.split()).to_pylist()
    assert again.events == whole.events == len(rows)
    assert sorted(rows, key=lambda r: r["id"]) == sorted(expected, key=lambda r: r["id"])
    assert [r["start"] for r in rows] == sorted(r["start"] for r in rows)


def test_counts_capabilities_and_disclosures(program):
    keep(program, compilation(0, 1000, 1900), Recompile(0, ()))
    with CompileSpoolLine(program) as line:
        line('{"t": "note", "text": "guards are not told"}')
        line('{"t": "dropped", "name": "recompiles at /project/model.py:10", "n": 7}')
        line("not a record")
    with program.trace() as trace:
        metadata = trace.metadata
        dropped = trace.read(COLUMNS.split(), kinds=["warning"]).to_pylist()
    assert metadata["counts"]["compiles_dropped"] == 8
    assert metadata["counts"]["by_kind"]["recompile"] == 1
    assert metadata["capabilities"]["compile"] == {"observed": True, "reason": "guards are not told"}
    assert metadata["discloses"]["compilations"] is True
    assert [(r["name"], r["file"], r["line"], r["detail"]) for r in dropped] == [
        ("recompiles_dropped", "model.py", 10, '{"count": 7}')
    ]  # fmt: skip


class CompileSpoolLine:
    def __init__(self, one):
        self.path = path_in(one.spool, 100)

    def __enter__(self):
        self.file = self.path.open("a")
        return lambda text: self.file.write(text + "\n")

    def __exit__(self, *_):
        self.file.close()


def test_an_empty_or_foreign_file_changes_nothing(program):
    path_in(program.spool, 100).write_bytes(b"\x00\xff" * 500)
    path_in(program.spool, 9).write_text("")
    rows = program.rows(COLUMNS)
    assert {r["kind"] for r in rows} == {"launch", "step"}
    assert {r["correlation"] for r in rows} == {-1}


def test_a_process_that_recorded_nothing_else_is_left_out(program):
    keep(program, compilation(0, 1000, 1900), pid=555)
    assert "compile" not in {r["kind"] for r in program.rows(COLUMNS)}


def test_a_trace_of_compilations_alone(tmp_path):
    found = [
        Compiles(5, (compilation(0, 0, 900), compilation(1, 1000, 1900)), recompiles=(Recompile(1, (reason(),)),)),
        Compiles(6, (compilation(0, 100, 800), replace(compilation(1, 850, 950), thread=8))),
    ]  # fmt: skip
    made = compile_trace(
        found, PathRules({"cwd": PROJECT}), ranks=[0, 1], start_unix_ns=1_700_000_000_000_000_000,
        observed={"compile": "", "guards": None}, not_observed="from a log",
    )  # fmt: skip
    path = tmp_path / "t.parquet"
    with TraceWriter(path, made.metadata) as writer:
        writer.write_rows(made.columns)
    with load(path) as trace:
        rows = trace.read([*COLUMNS.split(), "rank"]).to_pylist()
        metadata = trace.metadata
    assert [(r["kind"], r["rank"], r["start"], r["duration"]) for r in rows] == [
        ("compile", 0, 0, 900), ("compile", 1, 100, 700), ("compile", 1, 850, 100), ("recompile", 0, 1000, 900),
        ("compile", 0, 1000, 900),
    ]  # fmt: skip
    assert [(lane["lane"], lane["kind"], lane["rank"], lane["name"]) for lane in metadata["lanes"]] == [
        (0, "compile", 0, "compile"), (1, "compile", 1, "compile · thread 1"), (2, "compile", 1, "compile · thread 2")
    ]  # fmt: skip
    assert rows[0]["file"] == "model.py"
    assert metadata["capabilities"]["compile"] == {"observed": True, "reason": ""}
    assert metadata["capabilities"]["guards"] == {"observed": False, "reason": "from a log"}
    assert metadata["capabilities"]["stacks"] == {"observed": False, "reason": "from a log"}
    assert (metadata["recorder"], metadata["world_size"], metadata["duration_ns"]) == ("import", 2, 1900)
    assert metadata["counts"]["events"] == 5
    assert {r["step"] for r in rows} == {-1}


def test_nothing_compiled_makes_an_empty_trace(tmp_path):
    made = compile_trace([], PathRules({}))
    path = tmp_path / "t.parquet"
    with TraceWriter(path, made.metadata) as writer:
        writer.write_rows(made.columns)
    with load(path) as trace:
        assert trace.metadata["counts"]["events"] == 0


def test_ten_thousand_recompilations_are_quick(recording):
    one = recording()
    one.process().thread(os_thread=70).op("aten::relu", 10, 20)
    writer = CompileWriter(path_in(one.spool, 100))
    graph = tuple(GraphNode("aten.mm", MODEL) for _ in range(20))
    for key in range(10_000):
        c = compilation(key, 100 + key * 100, 190 + key * 100, nth=key + 1, graph=graph)
        writer.begin(c)
        if key:
            writer.recompile(Recompile(key, (reason(),)))
        writer.compilation(c)
    writer.close()
    rows = one.rows("kind name detail duration")
    kinds = np.unique([r["kind"] for r in rows], return_counts=True)
    assert dict(zip(*(k.tolist() for k in kinds), strict=True)) == {
        "compile": 10_000, "op": 1, "recompile": 200, "warning": 1
    }  # fmt: skip
    assert json.loads(by_name(rows, "recompiles_dropped")["detail"]) == {"count": 9799}
