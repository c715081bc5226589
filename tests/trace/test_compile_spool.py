"""What the compiler recorder writes comes back as it was; anything else is counted, never raised."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuron_explorer.trace import compile_spool
from neuron_explorer.trace.compile_spool import CompileWriter, bounded_json
from neuron_explorer.trace.compile_spool_reader import read_file
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

PLACE = Place("/app/model.py", 10, "Model.forward")
COMPILATION = Compilation(
    key=3, compile_id="0/1", attempt=0, start=100, end=900, thread=7, place=PLACE, backend="inductor", nth=2, limit=8,
    callers=(Place("/app/train.py", 40, "main"),), restart_reasons=("retry",), failure={"type": "X", "line": 3},
    guard_count=5, guards=("L['x'].shape[0] == 4",), graph_ops=2,
    graph=(
        GraphNode("aten.mm", Place("/app/model.py", 11, "forward"), "layers.0", "[[4, 8]]", '["float32"]'),
        GraphNode("output"),
    ),
    cache={"fx_graph": "miss"}, tracing_ops=12, inputs='{"x": [4, 8]}', facts={"note": [1, "two", None]},
)  # fmt: skip
REASON = Reason(
    "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5", "size", "tensor 'x' size mismatch", "x", "4",
    "5", 0, "0/0", Place("/app/model.py", 11, "forward"),
)  # fmt: skip


def written(path: Path, *calls: tuple[str, object]) -> Compiles:
    writer = CompileWriter(path)
    for name, value in calls:
        getattr(writer, name)(value)
    writer.close()
    assert writer.lost == 0
    found = read_file(path, 1)
    assert found is not None
    return found


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    phase = Phase(3, "backend", "compile_fx", 200, 800, 7, {"kernels": 2})
    recompile = Recompile(3, (REASON,), "0/0")
    graph_break = GraphBreak(3, 500, 7, PLACE, "print", "Unsupported", "why", ("hint",), (PLACE,), 2)
    limit = LimitReached(950, 7, PLACE, 8, "recompile_limit", (PLACE,), (REASON,))
    found = written(
        tmp_path / "compiles-1.jsonl", ("begin", COMPILATION), ("phase", phase), ("recompile", recompile),
        ("graph_break", graph_break), ("limit", limit), ("note", "no guards"), ("compilation", COMPILATION),
    )  # fmt: skip
    assert found == Compiles(
        1, (COMPILATION,), (phase,), (recompile,), (graph_break,), (limit,), {}, ("no guards",)
    )  # fmt: skip


def test_a_compilation_that_only_began_is_unended(tmp_path: Path) -> None:
    found = written(tmp_path / "c", ("begin", COMPILATION))
    assert [(c.key, c.start, c.end, c.outcome, c.graph) for c in found.compilations] == [(3, 100, -1, "unended", ())]


def test_each_record_is_on_the_disk_when_the_call_returns(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from neuron_explorer.trace.compile_spool import CompileWriter\n"
        "from neuron_explorer.trace.compiles import Compilation, Phase, Place\n"
        "assert 'torch' not in sys.modules\n"
        "writer = CompileWriter(sys.argv[1])\n"
        "writer.begin(Compilation(1, '0/0', 0, 10, -1, 1, Place('a.py', 1)))\n"
        "writer.phase(Phase(1, 'aot', 'aot', 11, 12, 1))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "compiles-1.jsonl"
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    found = read_file(path, 1)
    assert found is not None
    assert [(c.outcome, c.end) for c in found.compilations] == [("unended", -1)]
    assert [p.name for p in found.phases] == ["aot"]
    assert found.dropped == {}


def test_a_torn_last_line_is_cut_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "c"
    written(path, ("begin", COMPILATION), ("compilation", COMPILATION))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    found = read_file(path, 1)
    assert found is not None
    assert [c.outcome for c in found.compilations] == ["unended"]
    assert found.dropped == {"torn_lines": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"", b"[]", b"{}", b"null", b"\xff\xfe", b'{"t":"begin"}',
        b'{"t":"begin","key":-1,"start":1,"place":["a",1,""]}',
        b'{"t":"begin","key":1e3,"start":1,"place":["a",1,""]}',
        b'{"t":"begin","key":1,"start":true,"place":["a",1,""]}',
        b'{"t":"begin","key":1,"start":99999999999999999999999,"place":["a",1,""]}',
        b'{"t":"begin","key":1,"start":1,"place":["a","1",""]}', b'{"t":"phase","key":1,"start":NaN}',
        b'{"t":"compilation","key":1,"start":1,"place":["a",1,""],"graph":[["op"]]}',
        b'{"t":"recompile","key":1,"reasons":[3]}', b'{"t":"none"}', b"[" * 100_000, b'{"t":' + b"1" * 10_000 + b"}",
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_counted(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "c"
    written(path, ("compilation", COMPILATION))
    path.write_bytes(line + b"\n" + path.read_bytes())
    found = read_file(path, 1)
    assert found is not None
    assert found.compilations == (COMPILATION,)
    assert found.dropped == {"bad_lines": 1}


def test_wrong_types_inside_a_record_become_unknown(tmp_path: Path) -> None:
    record = {
        "t": "compilation", "key": 1, "start": 5, "end": "x", "place": ["a.py", -7, "f"], "thread": None, "nth": -4,
        "backend": [], "trigger": "elsewhere", "outcome": 3, "callers": [["a", 1, "f"], 3, ["b", "c", "d"]],
        "guards": "text", "cache": {"a": "hit", "b": [], "c": "perhaps"}, "failure": [], "graph": 4, "limit": 1 << 70,
        "facts": {"deep": [[[[[[[[1]]]]]]]]},
    }  # fmt: skip
    path = tmp_path / "c"
    path.write_text(json.dumps(record) + "\n")
    found = read_file(path, 1)
    assert found is not None
    (c,) = found.compilations
    assert (c.end, c.outcome, c.place, c.thread, c.nth) == (-1, "unended", Place("a.py", -1, "f"), 0, 1)
    assert (c.backend, c.trigger, c.limit, c.guards) == ("", "forward", -1, ())
    assert (c.callers, c.cache, c.failure, c.graph) == ((Place("a", 1, "f"),), {"a": "hit"}, {}, ())
    assert c.facts == {"deep": [[[["(list)"]]]]}


def test_an_overlong_line_is_skipped_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.trace import compile_spool_reader

    monkeypatch.setattr(compile_spool_reader, "MAX_LINE_BYTES", 3000)
    path = tmp_path / "c"
    written(path, ("compilation", COMPILATION))
    path.write_bytes(b'{"t":"note","text":"' + b"x" * 50_000 + b'"}\n' + path.read_bytes())
    found = read_file(path, 1)
    assert found is not None
    assert found.compilations == (COMPILATION,)
    assert found.dropped == {"bad_lines": 1}


def test_no_more_than_the_bound_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.trace import compile_spool_reader

    monkeypatch.setattr(compile_spool_reader, "MAX_RECORDS", 3)
    found = written(tmp_path / "c", *[("note", f"n{i}") for i in range(5)])
    assert found.notes == ("n0", "n1", "n2")
    assert found.dropped == {"records_beyond_bound": 1}


def test_what_is_not_a_regular_file_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "compiles-1.jsonl")
    (tmp_path / "compiles-2.jsonl").mkdir()
    (tmp_path / "compiles-x.jsonl").write_text("{}")
    (tmp_path / f"compiles-{1 << 80}.jsonl").write_text("{}")
    assert compile_spool.read(tmp_path) == []


def test_recompilations_of_one_place_are_bounded_and_counted(tmp_path: Path) -> None:
    writer = CompileWriter(tmp_path / "compiles-1.jsonl")
    other = Place("/app/other.py", 1, "f")
    for key in range(1000):
        one = replace(COMPILATION, key=key, nth=key + 1, start=key * 10, end=key * 10 + 5)
        writer.begin(one)
        if key:
            writer.recompile(Recompile(key, (REASON,)))
        writer.phase(Phase(key, "backend", "b", key * 10, key * 10 + 5, 7))
        writer.compilation(one)
    writer.begin(replace(COMPILATION, key=5000, place=other))
    writer.recompile(Recompile(5000, (REASON,)))
    writer.close()
    (found,) = compile_spool.read(tmp_path)
    assert len(found.compilations) == 1001  # all times, so that what they cost is whole
    assert len(found.recompiles) == 201
    assert found.dropped == {"recompiles at /app/model.py:10": 799, "phases": 799}
    kept = [c for c in found.compilations if c.graph]
    assert len(kept) == 201
    assert len(found.phases) == 201
    assert found.compilations[900].graph_truncated


def test_large_parts_are_cut(tmp_path: Path) -> None:
    nodes = tuple(GraphNode("x" * 1000, PLACE, "m" * 1000, "s" * 1000) for _ in range(6000))
    big = replace(COMPILATION, graph=nodes, graph_ops=6000, guards=("g" * 9000,) * 500)
    (c,) = written(tmp_path / "c", ("compilation", big)).compilations
    assert (len(c.graph), c.graph_ops, c.graph_truncated) == (5000, 6000, True)
    assert (len(c.graph[0].op), len(c.graph[0].module), c.graph[0].shapes) == (500, 500, "")
    assert (len(c.guards), len(c.guards[0])) == (200, 4000)


def test_a_writer_without_a_file_does_not_stop_the_program(tmp_path: Path) -> None:
    writer = CompileWriter(tmp_path / "missing" / "c")
    writer.compilation(COMPILATION)
    writer.close()
    writer.close()
    assert writer.failure
    assert writer.lost == 1


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c"
    writer = CompileWriter(path)
    child = os.fork()
    if child == 0:
        writer.note("child")
        writer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    writer.note("parent")
    writer.close()
    found = read_file(path, 1)
    assert found is not None
    assert found.notes == ("parent",)


class Odd:
    def __repr__(self) -> str:
        raise AssertionError("a program's own code")

    __str__ = __repr__


def test_objects_are_named_by_their_type_only() -> None:
    assert bounded_json({"a": Odd(), "b": float("nan"), "c": 1 << 100, "d": 1 << 5000}) == {
        "a": "(Odd)", "b": "nan", "c": str(1 << 100), "d": "(a large number)",
    }  # fmt: skip


def test_text_that_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    found = written(tmp_path / "c", ("note", "a\udc80b"), ("begin", replace(COMPILATION, place=Place("\udcff.py", 1))))
    assert found.notes == ("a\\udc80b",)
    assert found.compilations[0].place.file == "\\udcff.py"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({*Compilation.__dataclass_fields__, *GraphBreak.__dataclass_fields__, "reasons", "n", "text", "name"})


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["begin", "compilation", "phase", "recompile", "break", "limit", "note", "dropped"]),
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=12),
)
def test_any_record_is_read_or_counted(tmp_path_factory: pytest.TempPathFactory, kind: str, fields: dict) -> None:
    path = tmp_path_factory.mktemp("spool") / "c"
    record = {"key": 1, "start": 2, "time": 2, "place": ["a.py", 1, "f"], **fields, "t": kind}
    path.write_text(json.dumps(record) + "\n")
    found = read_file(path, 1)
    assert found is not None
    kept = [*found.compilations, *found.phases, *found.breaks, *found.limits, *found.notes, *found.dropped]
    assert kept or kind in ("dropped", "note", "recompile")
    json.dumps([vars(c)["facts"] for c in found.compilations], allow_nan=False)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("spool") / "c"
    path.write_bytes(data)
    assert read_file(path, 1) is not None
