"""Real runs of several ranks of which one misbehaves: the reports name the rank, the line and what never ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import ask_run
from neuron_explorer.analysis.ranks.view import RunView, view_of
from neuron_explorer.trace.run import open_run

dist = pytest.importorskip("torch.distributed", reason="recording needs torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or not dist.is_available() or not dist.is_gloo_available(),
        reason="ranks are recorded on Linux, with gloo",
    ),
]
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "run_of_ranks_program.py"
LINES = PROGRAM.read_text().splitlines()
SECONDS = 300
HOURS = 3_600_000_000_000
SLOW, COMPILES, STEPS = 1, 2, 8


def line_of(mark: str) -> str:
    return f":{next(i for i, text in enumerate(LINES, 1) if text.endswith('# LINE: ' + mark))}"


def environment() -> dict[str, str]:
    known = {key: value for key, value in os.environ.items() if not key.startswith("NEURON_EXPLORER_EMUL")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**known, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def launch(directory: Path, size: int, way: str, *troubles: str) -> subprocess.CompletedProcess[str]:
    from neuron_explorer import _native

    try:
        _native.load()  # once, not in every process
        if way == "ddp":
            _native.load_emulator()
    except _native.NativeUnavailable as error:
        pytest.skip(f"no native code here: {error}")
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}", str(PROGRAM), way,
         f"{directory}/", *troubles],
        capture_output=True, text=True, timeout=SECONDS, env=environment(), check=False,
    )  # fmt: skip


def rows(run: RunView, report: str, table: str) -> list[dict]:
    return ask_run(run, report, Ask(top=1000)).table(table).records()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "neuron_explorer", *arguments],
        capture_output=True, text=True, timeout=SECONDS, env=environment(), check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mesh(tmp_path_factory) -> Path:
    """2×2: tensor parallel and FSDP2; rank 1 is slow, rank 2 compiles once more."""
    directory = tmp_path_factory.mktemp("mesh") / "run"
    done = launch(directory, 4, "mesh", "slow", "compiles")
    assert done.returncode == 0, done.stderr[-4000:]
    said = [line for line in done.stderr.splitlines() if line.startswith("neuron-explorer: ")]
    assert len(said) == 1 and said[0].endswith(f"look at all of them with: nxplorer serve {directory}")
    return directory


@pytest.fixture(scope="module")
def mesh_view(mesh: Path) -> RunView:
    return view_of(mesh)


def test_a_slow_rank_is_named_with_its_line(mesh_view: RunView) -> None:
    (straggler,) = rows(mesh_view, "stragglers", "stragglers")
    assert (straggler["rank"], straggler["cause"]) == (SLOW, "compute")
    assert straggler["place"].endswith(PROGRAM.name + line_of("slow"))
    assert straggler["place_ns"] > 0.5 * straggler["by_ns"] > 0
    own = {row["rank"]: row["own_ns"] for row in rows(mesh_view, "ranks", "ranks")}
    assert own[SLOW] > 1.5 * max(own[rank] for rank in (0, 2, 3))
    head = ask_run(mesh_view, "ranks", Ask()).headline
    assert head.startswith("4 ranks; a step takes") and f"rank {SLOW} holds the others up" in head


def test_the_slow_rank_comes_last(mesh_view: RunView) -> None:
    """Its slow part comes before the first gathering of parameters, and the next thing is tensor parallel."""
    late = rows(mesh_view, "collectives", "late")
    by_rank: dict[int, int] = {}
    for row in rows(mesh_view, "collectives", "worst"):
        by_rank[row["last_rank"]] = by_rank.get(row["last_rank"], 0) + row["waited_ns"]
    caused = {row["rank"]: row["caused_ns"] for row in rows(mesh_view, "ranks", "ranks")}
    assert max(caused, key=caused.__getitem__) == SLOW == max(by_rank, key=by_rank.__getitem__)
    assert any(row["last_rank"] == SLOW and row["operation"] == "all_gather" for row in late)
    assert all(PROGRAM.name in row["place"] for row in late)
    assert rows(mesh_view, "collectives", "findings") == []


def test_a_rank_that_compiles_once_more_is_named(mesh_view: RunView) -> None:
    (divergent,) = rows(mesh_view, "stragglers", "divergent")
    assert (divergent["ranks"], divergent["others"], divergent["function"]) == (str(COMPILES), "0-1, 3", "scaled")
    assert (divergent["count"], divergent["usual"], divergent["what"]) == (2, 1, "count")
    defined = next(i for i, text in enumerate(LINES, 1) if text.startswith("def scaled"))
    assert divergent["place"].endswith(f"{PROGRAM.name}:{defined}")
    counts = {row["rank"]: row["compilations"] for row in rows(mesh_view, "ranks", "ranks")}
    assert counts == {0: 1, 1: 1, 2: 2, 3: 1}


def test_mesh_dimensions_and_modules_are_named(mesh_view: RunView) -> None:
    dimensions = {(row["dimension"], row["operation"]) for row in rows(mesh_view, "collectives", "dimensions")}
    assert dimensions == {
        ("tp", "all_reduce"), ("dp", "all_gather"), ("dp", "reduce_scatter"), ("default_pg", "all_reduce"),
    }  # fmt: skip
    groups = rows(mesh_view, "collectives", "groups")
    assert all(row["size"] == 2 and row["backend"] == "gloo" for row in groups if row["mesh_dimension"])
    gathered = {row["module"]: row for row in rows(mesh_view, "collectives", "prefetch")
                if row["operation"] == "all_gather"}  # fmt: skip
    assert set(gathered) == {"layers.0", "layers.1", "layers.2"}
    # Forward gathers when a module is reached; backward gathers the next one beside the first.
    shares = {name: row["prefetched"] for name, row in gathered.items()}
    assert shares == {"layers.0": 0.5, "layers.1": 0.5, "layers.2": 0}
    assert all(row["verdict"] == "late" for row in gathered.values())  # gloo blocks the host until they are there


def test_the_clocks_of_one_machine_agree(mesh_view: RunView) -> None:
    clocks = rows(mesh_view, "ranks", "clocks")
    assert [row["rank"] for row in clocks] == [0, 1, 2, 3]
    for row in clocks[1:]:
        # They are one clock: what is found lies within its own bound (a millisecond: when each trace began).
        assert 0 < row["error_ns"] < 200_000_000
        assert abs(row["unix_ahead_ns"]) <= row["error_ns"] + 1_000_000


def rewritten(path: Path, **changes: object) -> None:
    """The trace with other facts in its metadata; numbers are added to what is there."""
    table = pq.ParquetFile(path).read()
    document = json.loads(table.schema.metadata[b"neuron_explorer"])
    for key, value in changes.items():
        document[key] = document[key] + value if isinstance(value, int) else value
    pq.write_table(table.replace_schema_metadata({b"neuron_explorer": json.dumps(document).encode()}), path)


def test_a_clock_that_is_hours_off_changes_nothing_but_itself(mesh: Path, mesh_view: RunView, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(mesh, run, ignore=shutil.ignore_patterns(".neuron-explorer"))
    rewritten(run / "part_rank=0003" / "trace.parquet", start_unix_ns=5 * HOURS)
    view = view_of(run)
    before, after = (rows(v, "ranks", "clocks")[3] for v in (mesh_view, view))
    assert after["unix_ahead_ns"] - before["unix_ahead_ns"] == pytest.approx(5 * HOURS, abs=1000)
    assert after["error_ns"] == before["error_ns"]
    for report, table in (("stragglers", "stragglers"), ("collectives", "late"), ("collectives", "worst")):
        assert rows(view, report, table) == rows(mesh_view, report, table)


def test_two_runs_in_one_directory(mesh: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for rank in range(4):
        source = mesh / f"part_rank={rank:04d}" / "trace.parquet"
        shutil.copy(source, run / f"new{rank}.parquet")
        shutil.copy(source, run / f"old{rank}.parquet")
        about = json.loads(pq.read_metadata(source).metadata[b"neuron_explorer"])["distributed"]
        rewritten(run / f"old{rank}.parquet", start_unix_ns=-HOURS, distributed=about | {"run_id": "earlier"})
    opened = open_run(run)
    assert [file.path.name for file in opened.ranks] == [f"new{rank}.parquet" for rank in range(4)]
    assert [aside.kind for aside in opened.set_aside] == ["other run"] * 4
    done = command("report", "stragglers", str(run))
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert f"rank {SLOW} is slower than the middle rank" in said and "Left aside, other run" in said


def test_a_directory_that_is_still_being_written(mesh: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(mesh, run, ignore=shutil.ignore_patterns(".neuron-explorer"))
    trace = run / "part_rank=0003" / "trace.parquet"
    trace.unlink()
    spool = trace.with_name("trace.parquet.spool")
    spool.mkdir()
    session = {"pid": os.getppid(), "start_unix_ns": time.time_ns(), "rank": 3}  # a process that is alive
    (spool / "session.json").write_text(json.dumps(session))
    opened = open_run(run)
    assert opened.missing == (3,)
    assert [(aside.kind, aside.rank) for aside in opened.set_aside] == [("recording", 3)]
    done = command("report", "stragglers", str(run))
    said = " ".join(done.stdout.split())
    assert done.returncode == 0 and f"rank {SLOW} is slower than the middle rank" in said
    assert "missing: 3" in said and "Left aside, recording: rank 3 (its process is still recording)" in said


def test_data_parallel_on_the_emulated_device(tmp_path: Path) -> None:
    """One rank is slow, and calls another collective in the end, which neither can complete."""
    run = tmp_path / "run"
    done = launch(run, 2, "ddp", "slow", "other")
    assert done.returncode == 0, done.stderr[-4000:]
    view = view_of(run)
    (straggler,) = rows(view, "stragglers", "stragglers")
    assert (straggler["rank"], straggler["cause"]) == (SLOW, "compute")
    assert straggler["place"].endswith(PROGRAM.name + line_of("slow"))
    caused = {row["rank"]: row["caused_ns"] for row in rows(view, "ranks", "ranks")}
    late = rows(view, "collectives", "late")[0]
    assert (late["last_rank"], late["operation"]) == (SLOW, "all_reduce")
    assert caused[SLOW] > caused[0]
    mismatch, hang = rows(view, "collectives", "findings")
    assert (mismatch["kind"], mismatch["ranks"], mismatch["others"]) == ("mismatch", "1", "0")
    assert mismatch["place"].endswith(line_of("other")) and mismatch["other_place"].endswith(line_of("usual"))
    assert (hang["kind"], hang["number"]) == ("hang", mismatch["number"])
    assert {row["device"] for row in rows(view, "ranks", "ranks")} == {"neuron"}


def test_a_killed_rank(tmp_path: Path) -> None:
    """What it and the others left behind is recovered, and the collective that it never came to is named."""
    run = tmp_path / "run"
    assert launch(run, 2, "fsdp", "killed").returncode != 0
    assert not (run / "part_rank=0001" / "trace.parquet").exists()
    for arguments in (("summary",), ("report", "ranks")):
        refused = command(*arguments, str(run))
        if not (run / "part_rank=0000" / "trace.parquet").exists():
            assert refused.returncode == 4 and f"neuron-explorer recover {run}" in " ".join(refused.stderr.split())
    assert command("recover", str(run)).returncode == 0
    done = command("summary", str(run))
    assert done.returncode == 0
    view = view_of(run)
    (finding,) = rows(view, "collectives", "findings")
    assert (finding["ranks"], finding["others"], finding["operation"]) == ("1", "0", "all_gather")
    assert finding["kind"] in ("missing", "hang") and "ended early" in finding["evidence"]
    assert finding["place"].endswith(PROGRAM.name + line_of("total"))
    assert finding["evidence"] in " ".join(done.stdout.split())
    finished = {row["rank"]: row["finished"] for row in rows(view, "ranks", "ranks")}
    assert finished[1] is False
    assert any("ended early" in note for note in view.notes)
    # Without its trace, it is said which rank is missing.
    shutil.rmtree(run / "part_rank=0001")
    alone = command("report", "ranks", str(run))
    assert alone.returncode == 0 and "1 of 2 ranks" in alone.stdout and "missing: 1" in alone.stdout
