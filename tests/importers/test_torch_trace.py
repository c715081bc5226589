"""What the importer makes of the logs in ``data/``: the program that wrote them is ``log_program.py``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_logs import DATA, VERSIONS, compiles, event_log, imported, text_of

from neuron_explorer.errors import BadTraceError, OutputError
from neuron_explorer.trace.importers import default_output, find, import_trace

LINE = {
    name: number + 1
    for number, text in enumerate(Path(__file__).with_name("log_program.py").read_text().splitlines())
    for name in ("def scale", "def breaks", "def forward", "def refused", "def never", 'print("middle")', "if z.sum()")
    if text.strip().startswith(name)
}


@pytest.fixture(scope="module", params=VERSIONS)
def log(request, tmp_path_factory):
    return imported(DATA / f"{request.param}.log.gz", tmp_path_factory.mktemp(request.param))


def test_every_attempt_is_a_compilation(log):
    rows, _ = log
    found = [(r["compile_id"], r["name"], r["detail"]["attempt"], r["detail"]["outcome"]) for r in compiles(rows)]
    forward = [c for c, r in zip(found, compiles(rows), strict=True) if r["detail"]["trigger"] == "forward"]
    assert forward == [
        *((f"0/{n}", "scale", 0, "ok") for n in range(8)),
        ("1/0", "breaks", 0, "restarted"),
        ("1/0", "breaks", 1, "ok"),
        ("2/0", forward[10][1], 0, "ok"),
        ("3/0", forward[11][1], 0, "ok"),
        ("4/0", "forward", 0, "ok"),
        ("4/1", "forward", 0, "ok"),
        ("5/0", "refused", 0, "failed"),
        ("7/0", "never", 0, "unended"),
    ]
    assert forward[10][1].startswith("torch_dynamo_resume_in_breaks")
    backward = [r for r in compiles(rows) if r["detail"]["trigger"] == "backward"]
    assert [(r["compile_id"], r["line"]) for r in backward] == [("4/0", LINE["def forward"])]
    captured = [r["compile_id"] for r in compiles(rows) if r["detail"]["trigger"] == "compiled_autograd"]
    assert captured == ["!0", "!0/6/0"]


def test_a_recompilation_has_the_reason_of_the_entry_that_nearly_fitted(log):
    rows, _ = log
    found = [
        (r["compile_id"], r["detail"]["cause"], r["detail"]["source"], r["detail"]["expected"], r["detail"]["actual"],
         r["detail"]["previous_compile_id"])
        for r in rows if r["kind"] == "recompile"
    ]  # fmt: skip
    assert found == [
        ("0/1", "size", "x.shape[0]", "4", "5", "0/0"),
        ("0/2", "dtype", "x", "float32", "float64", "0/0"),
        ("0/3", "python_value", "k", "2.0", "3.0", "0/0"),
        ("0/4", "size", "x.shape[0]", "5", "10", "0/1"),  # 0/0 to 0/2 are as near, 0/3 had another k
        ("0/5", "size", "x.shape[0]", "10", "11", "0/4"),
        ("0/6", "size", "x.shape[0]", "11", "12", "0/5"),
        ("0/7", "size", "x.shape[0]", "12", "13", "0/6"),
        ("4/1", "requires_grad", "x", "requires gradient", "no gradient", "4/0"),
    ]
    recompile = next(r for r in rows if r["kind"] == "recompile" and r["compile_id"] == "0/3")
    assert recompile["detail"]["reasons"][0]["entry"] == "0/0"
    assert len(recompile["detail"]["reasons"]) == 3
    assert (recompile["file"], recompile["line"]) == ("log_program.py", LINE["def scale"])
    assert (recompile["detail"]["nth"], recompile["detail"]["limit"]) == (4, 8)


def test_the_limit_is_no_compilation(log):
    rows, _ = log
    (limit,) = [r for r in rows if r["kind"] == "warning"]
    assert (limit["name"], limit["file"], limit["line"]) == ("recompile_limit", "log_program.py", LINE["def scale"])
    assert limit["detail"]["limit"] == 8
    assert limit["detail"]["reasons"][0]["actual"] == "14"
    assert "0/8" not in {r["compile_id"] for r in rows}


def test_graph_breaks_have_the_users_line_and_words(log):
    rows, _ = log
    breaks = [r for r in rows if r["kind"] == "graph_break"]
    assert [r["line"] for r in breaks] == [LINE['print("middle")'], LINE["if z.sum()"]]
    assert {r["file"] for r in breaks} == {"log_program.py"}
    assert "print" in breaks[0]["detail"]["explanation"] and breaks[0]["detail"]["hints"]
    assert breaks[1]["detail"]["type"] == "Data-dependent branching"
    parents = {r["id"]: r for r in rows}
    assert [parents[r["parent"]]["compile_id"] for r in breaks] == ["1/0", "2/0"]
    assert breaks[0]["detail"]["callers"][-1]["function"] == "<module>"


def test_failures_say_what_failed(log):
    rows, _ = log
    (failed,) = [r for r in compiles(rows) if r["detail"]["outcome"] == "failed"]
    assert failed["detail"]["failure"]["type"] == "BackendCompilerFailed"
    assert "this backend refuses" in failed["detail"]["failure"]["reason"]
    assert failed["detail"]["backend"] == "backend"


def test_callers_are_the_users(log):
    rows, _ = log
    called = [r["detail"]["callers"] for r in compiles(rows) if r["detail"]["trigger"] == "forward"]
    assert called and all({c["file"] for c in callers} == {"log_program.py"} for callers in called)


def test_an_unended_compilation_is_the_last(log):
    rows, metadata = log
    (unended,) = [r for r in compiles(rows) if r["detail"]["outcome"] == "unended"]
    assert unended["duration"] == -1 and unended["line"] == LINE["def never"]
    assert metadata["counts"]["unended"] >= 1


def test_graphs_have_the_line_of_every_operator(log):
    rows, _ = log
    first = compiles(rows)[0]
    graph = first["detail"]["graph"]
    assert [(n["op"], n["line"] - LINE["def scale"], n["shapes"], n["dtypes"]) for n in graph] == [
        ("mul", 1, "[[4],null]", '["float32",null]'), ("sum", 2, "[[4]]", '["float32"]'),
    ]  # fmt: skip
    assert first["detail"]["graph_ops"] == 2
    assert first["detail"]["inputs"] == {"L_x_": {"shape": [4], "dtype": "float32"}}
    assert any(g.startswith("check_tensor(L['x']") for g in first["detail"]["guards"])


def test_parts_lie_inside_their_compilation(log):
    rows, _ = log
    by_id = {r["id"]: r for r in rows}
    parts = [r for r in rows if r["detail"].get("phase")]
    assert {"bytecode_tracing", "backend", "aot", "build_guards"} <= {r["name"] for r in parts}
    for part in parts:
        whole = by_id[part["parent"]]
        assert whole["start"] <= part["start"]
        if whole["duration"] >= 0 and part["duration"] >= 0:
            assert part["start"] + part["duration"] <= whole["start"] + whole["duration"]


def test_what_is_known_of_the_run(log, request):
    _, metadata = log
    version = request.node.callspec.params["log"].removeprefix("torch-")
    # Torch 2.9 does not log its version.
    assert metadata["versions"]["torch"].startswith(version + ".") or version == "2.9"
    assert metadata["recorder"] == "import" and metadata["import"]["format"] == "torch_trace"
    assert metadata["capabilities"]["compile"]["observed"]
    assert not metadata["capabilities"]["device_time"]["observed"]
    assert metadata["start_unix_ns"] > 1_700_000_000 * 10**9
    assert not [s for s in metadata["import"]["skipped"] if not s["harmless"]]


def test_no_directory_of_the_other_machine_is_kept(log):
    rows, metadata = log
    assert "/home/user" not in json.dumps(rows) + json.dumps(metadata)


@pytest.mark.parametrize("version", VERSIONS)
def test_caches(version, tmp_path):
    rows, _ = imported(DATA / f"{version}-caches.log.gz", tmp_path)
    found = [(r["compile_id"], r["detail"]["cache"], r["detail"]["backend"]) for r in compiles(rows)]
    assert found == [
        ("0/0", {"aotautograd": "miss", "fx_graph": "miss"}, "inductor"),
        ("0/0", {"aotautograd": "hit", "fx_graph": "hit"}, "inductor"),
        ("0/0", {"aotautograd": "hit", "fx_graph": "hit"}, "inductor"),
    ]
    assert not [r for r in rows if r["kind"] == "recompile"], "the ids begin again after a reset"
    assert compiles(rows)[1]["detail"]["facts"]["cache_time_saved_ns"] > 0


# --- several files ---------------------------------------------------------------------------


def test_ranks_have_lanes_of_their_own(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in (0, 1, 12):
        (logs / f"dedicated_log_torch_trace_rank_{rank}_x{rank}y.log").write_text(text_of("torch-2.13-caches"))
    (logs / "notes.txt").write_text("nothing of interest")
    (logs / "loop").symlink_to(logs)
    rows, metadata = imported(logs, tmp_path)
    assert {(r["rank"], r["lane"]) for r in rows} == {(0, 0), (1, 1), (12, 2)}
    assert [lane["rank"] for lane in metadata["lanes"]] == [0, 1, 12]
    assert metadata["world_size"] == 13
    assert len(compiles(rows)) == 9


def test_the_rank_of_a_record_counts_where_the_name_has_none(tmp_path):
    log = tmp_path / "dedicated_log_torch_trace_abc.log"
    log.write_text(text_of("torch-2.13-caches").replace('"frame_id"', '"rank": 3, "frame_id"'))
    rows, _ = imported(log, tmp_path)
    assert {r["rank"] for r in rows} == {3}


@pytest.mark.parametrize("names", [("a.log.2", "a.log.1", "a.log"), ("a.1.log", "a.2.log", "a.3.log")])
def test_rotated_parts_are_one_log(tmp_path, names):
    whole = text_of()
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = whole.splitlines(keepends=True)
    # Cut between records: a rotation never cuts one.
    starts = [n for n, line in enumerate(lines) if not line.startswith("\t")]
    cuts = [0, starts[len(starts) // 3], starts[len(starts) * 2 // 3], len(lines)]
    for name, low, high in zip(names, cuts, cuts[1:], strict=False):
        (logs / name).write_text("".join(lines[low:high]))
    single = tmp_path / "single.log"
    single.write_text(whole)
    assert imported(logs, tmp_path, "a.parquet")[0] == imported(single, tmp_path, "b.parquet")[0]


def test_two_processes_in_one_file_are_told_apart(tmp_path):
    text = text_of("torch-2.13-caches")
    pid = text.split(" ")[2]
    log = tmp_path / "a.log"
    log.write_text(text + text.replace(f" {pid} ", " 4242 "))
    rows, _ = imported(log, tmp_path)
    assert {r["process"] for r in rows} == {int(pid), 4242}


def test_compilations_at_the_same_time_are_on_two_threads(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(
        event_log([
            ("B", "dynamo", 10, "0/0"), ("B", "dynamo", 20, "1/0"), ("B", "bytecode_tracing", 25, "0/0"),
            ("E", "bytecode_tracing", 28, "0/0"), ("E", "dynamo", 30, "1/0"), ("E", "dynamo", 40, "0/0"),
        ])
    )  # fmt: skip
    rows, metadata = imported(log, tmp_path)
    assert {(r["compile_id"], r["lane"], r["depth"]) for r in compiles(rows)} == {("0/0", 0, 0), ("1/0", 1, 0)}
    assert [lane["name"] for lane in metadata["lanes"]] == ["compile · thread 1", "compile · thread 2"]


def test_a_compilation_inside_another_stays_on_its_thread(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(event_log([("B", "dynamo", 10, "0/0"), ("B", "dynamo", 20, "1/0"), ("E", "dynamo", 30, "1/0"),
                              ("E", "dynamo", 40, "0/0")]))  # fmt: skip
    rows, _ = imported(log, tmp_path)
    assert {(r["compile_id"], r["lane"], r["depth"]) for r in compiles(rows)} == {("0/0", 0, 0), ("1/0", 0, 1)}


def test_a_log_without_timed_events(tmp_path):
    """Torch 2.4 and older: the metrics say how long it took."""
    metrics = {"co_name": "f", "co_filename": "/home/user/project/model.py", "co_firstlineno": 3,
               "start_time": 1_700_000_010.5, "entire_frame_compile_time_s": 2.0, "guard_count": 4}  # fmt: skip
    place = '"frame_id": 0, "frame_compile_id": 0, "attempt": 0'
    log = tmp_path / "old.log"
    log.write_text(
        'V1114 22:13:30.000000 77 torch/_logging/structured.py:22] {"str": ["/home/user/project/model.py", 0]}\n'
        'V1114 22:13:30.500000 77 torch/_dynamo/convert_frame.py:1] {"dynamo_start": {"stack": ['
        '{"line": 9, "name": "<module>", "filename": 0}, {"line": 3, "name": "f", "filename": 0}]}, ' + place + "}\n"
        "V1114 22:13:32.600000 77 torch/_dynamo/utils.py:1] "
        + json.dumps({"compilation_metrics": metrics})[:-1] + ", " + place + "}\n"
    )  # fmt: skip
    rows, metadata = imported(log, tmp_path)
    (row,) = rows
    assert (row["name"], row["file"], row["line"], row["duration"]) == ("f", "model.py", 3, 2 * 10**9)
    assert row["detail"]["callers"] == [{"file": "model.py", "line": 9, "function": "<module>"}]
    assert not metadata["capabilities"]["compile_phases"]["observed"]


# --- the protocol ----------------------------------------------------------------------------


def test_a_log_is_known_by_its_content(tmp_path):
    named = tmp_path / "picture.png"
    named.write_text(text_of("torch-2.13-caches"))
    importer = find(named)
    assert importer is not None and importer.name == "torch_trace"
    other = tmp_path / "dedicated_log_torch_trace_rank_0_x.log"
    other.write_text("V1206 this is no such log\n")
    assert find(other) is None and find(tmp_path / "missing") is None


def test_default_outputs(tmp_path):
    assert default_output(tmp_path / "a.log").name == "a.parquet"
    assert default_output(tmp_path / "a.log.gz").name == "a.parquet"
    assert default_output(tmp_path / "traces").name == "traces.parquet"


def test_an_existing_file_is_kept(tmp_path):
    output = tmp_path / "trace.parquet"
    output.write_text("precious")
    with pytest.raises(OutputError, match="overwrite"):
        import_trace(DATA / "torch-2.13-caches.log.gz", output)
    assert output.read_text() == "precious"
    assert import_trace(DATA / "torch-2.13-caches.log.gz", output, overwrite=True).read["compilations"] == 3


def test_the_log_itself_is_never_overwritten(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(text_of("torch-2.13-caches"))
    with pytest.raises(OutputError):
        import_trace(log, log, overwrite=True)
    assert log.read_text() == text_of("torch-2.13-caches")


def test_progress_ends_at_the_whole(tmp_path):
    seen: list[tuple[int, int]] = []
    log = DATA / "torch-2.13.log.gz"
    import_trace(log, tmp_path / "a.parquet", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (log.stat().st_size, log.stat().st_size)
    assert all(done <= total for done, total in seen)


def test_a_log_without_compilations_is_refused(tmp_path):
    log = tmp_path / "a.log"
    log.write_text('V1114 22:13:30.000000 77 torch/_logging/structured.py:22] {"str": ["/x.py", 0]}\n')
    with pytest.raises(BadTraceError, match="without a single compilation"):
        import_trace(log, tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()
