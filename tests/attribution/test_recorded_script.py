"""Lines of a script under ``record``: code of the script itself, of spawned processes, of packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trace_invariants import broken
from trace_rows import Rows, read_rows

pytest.importorskip("torch")

ROOT = Path(__file__).parent.parent.parent
SCRIPT = '''import multiprocessing
import sys

import torch
from torch.utils.data import DataLoader, Dataset

from helper_package.layers import scaled


class Numbers(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index))  # line 15


def work(number):
    x = torch.ones(number)
    return x.sinh()  # line 20


if __name__ == "__main__":
    y = torch.ones(3).exp()  # line 24
    z = scaled(y)
    process = multiprocessing.get_context("spawn").Process(target=work, args=(3,))
    process.start()
    process.join()
    for batch in DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context="spawn"):
        y = batch.cosh()  # line 30
    sys.exit(process.exitcode)
'''
LAYERS = '''def scaled(x):
    return (
        x.tanh()  # line 3
        .neg()  # line 4
    )
'''


@pytest.fixture(scope="module", params=["native", "twin"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    if request.param == "native":
        from neuron_explorer import _native

        try:
            _native.load()
        except _native.NativeUnavailable as error:
            pytest.skip(f"no native recorder: {error}")
    folder = tmp_path_factory.mktemp("script")
    (folder / "helper_package").mkdir()
    (folder / "helper_package" / "__init__.py").write_text("")
    (folder / "helper_package" / "layers.py").write_text(LAYERS)
    (folder / "train.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.run(
        [sys.executable, "-m", "neuron_explorer", "record", "--recorder", request.param, "train.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert child.returncode == 0, child.stdout[-2000:] + child.stderr[-3000:]
    return read_rows(folder / "trace.parquet")


def places(trace: Rows, name: str) -> set[tuple[str, int, str]]:
    return {
        (r["file"], r["line"], r["function"])
        for r in trace.events
        if r["kind"] == "op" and r["name"].partition(".")[0] == name
    }


def test_sound(trace: Rows) -> None:
    assert broken(trace) == []


def test_lines_of_the_script_itself(trace: Rows) -> None:
    assert places(trace, "aten::exp") == {("train.py", 24, "<module>")}
    assert places(trace, "aten::cosh") == {("train.py", 30, "<module>")}
    assert trace.metadata["script"] == "train.py"


def test_lines_of_a_package_beside_it(trace: Rows) -> None:
    assert places(trace, "aten::tanh") == {("helper_package/layers.py", 3, "scaled")}
    assert places(trace, "aten::neg") == {("helper_package/layers.py", 4, "scaled")}


def test_lines_in_spawned_processes(trace: Rows) -> None:
    if trace.metadata["recorder"] == "twin" and not places(trace, "aten::sinh"):
        assert not trace.capability("forked_children")
        pytest.skip("the Python recorder does not record child processes, and says so")
    assert places(trace, "aten::sinh") == {("train.py", 20, "work")}
    assert ("train.py", 15) in {(file, line) for file, line, _ in places(trace, "aten::full")}
    main = trace.main_lane["process"]
    assert all(r["process"] != main for r in trace.events if r["name"].startswith("aten::sinh"))


def test_nothing_of_the_runner_is_seen(trace: Rows) -> None:
    """No event is on a line of this package."""
    for row in trace.events:
        assert "neuron_explorer/" not in str(row["file"]), row
    (row,) = [r for r in trace.events if r["name"] == "aten::exp"]
    assert trace.stack(row["stack"])[0] == ("train.py", 24, "<module>")


def test_sources_are_embedded(trace: Rows) -> None:
    texts = {r["file"]: r["text"] for r in trace.all if r["kind"] == "source"}
    assert texts == {"train.py": SCRIPT, "helper_package/layers.py": LAYERS}
