"""Every program under the profiler: the lines, phases and modules that its comments say.

All programs run in one child process per recorder; the traces are read with pyarrow alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from program_checks import disagreements
from program_expectations import Program, all_programs
from program_recordings import Recording, record_programs
from trace_invariants import broken
from trace_rows import Rows, read_rows

pytest.importorskip("torch")

PROGRAMS = all_programs()
RECORDERS = ("native", "twin")


def _native_missing() -> str:
    """Why the native recorder cannot be had here; empty when it can."""
    from neuron_explorer import _native

    try:
        _native.load()
    except _native.NativeUnavailable as error:
        return str(error)
    return ""


class Recordings:
    """Records on first use, and only the programs that this test session asks for."""

    def __init__(self, wanted: set[tuple[str, str]], folder: Path) -> None:
        self.wanted = wanted
        self.folder = folder
        self.done: dict[tuple[str, str], Recording] = {}
        self.rows: dict[tuple[str, str], Rows] = {}

    def get(self, recorder: str, program: Program) -> Recording:
        if (recorder, program.name) not in self.done:
            names = {n for r, n in self.wanted if r == recorder} | {program.name}
            apart = {p.name for p in PROGRAMS if "own_process" in p.options}
            for group in filter(None, (names - apart, names & apart)):
                folder = self.folder / f"{recorder}{len(self.done)}"
                folder.mkdir()
                for name, recording in record_programs(sorted(group), recorder, folder).items():
                    self.done[recorder, name] = recording
        return self.done[recorder, program.name]

    def trace(self, recorder: str, program: Program) -> Rows:
        recording = self.get(recorder, program)
        if recording.trace is None:
            pytest.fail(f"{program.name} was not recorded: {recording.error}", pytrace=False)
        key = (recorder, program.name)
        if key not in self.rows:
            self.rows[key] = read_rows(recording.trace)
        return self.rows[key]


@pytest.fixture(scope="session")
def recordings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    if keep := os.environ.get("NEURON_EXPLORER_TEST_TRACES"):  # to look at the traces afterwards
        folder = Path(keep)
        folder.mkdir(parents=True)
    else:
        folder = tmp_path_factory.mktemp("programs")
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = {(p["recorder"], p["program"].name) for p in params if "program" in p and "recorder" in p}
    return Recordings(wanted, folder)


@pytest.fixture(scope="session")
def native_missing() -> str:
    return _native_missing()


def _cases() -> list[pytest.param]:
    return [
        pytest.param(recorder, program, id=f"{recorder}-{program.name}")
        for recorder in RECORDERS
        for program in PROGRAMS
        if program.options.get("only", recorder) == recorder
    ]


@pytest.fixture
def trace(recorder: str, program: Program, recordings: Recordings, native_missing: str) -> Rows:
    if recorder == "native" and native_missing:
        pytest.skip(f"no native recorder: {native_missing}")
    return recordings.trace(recorder, program)


@pytest.mark.parametrize(("recorder", "program"), _cases())
def test_expectations(recorder: str, program: Program, trace: Rows) -> None:
    assert trace.metadata["recorder"] == recorder
    problems = disagreements(program, trace, recorder)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(("recorder", "program"), _cases())
def test_trace_is_sound(recorder: str, program: Program, trace: Rows) -> None:
    problems = broken(trace)
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(("recorder", "program"), _cases())
def test_program_is_not_changed(recorder: str, program: Program, trace: Rows, recordings: Recordings) -> None:
    """Results and random state are those of a run without the profiler, bit for bit."""
    recording = recordings.get(recorder, program)
    assert recording.same_results
    assert recording.same_random_state
