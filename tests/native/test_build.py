"""Building the native recorder: what it says when it cannot, and several builds at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

LOAD = "from neuron_explorer._native import load; load(); print('loaded')"


def run(code: str, cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "NEURON_EXPLORER_CACHE": str(cache), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


WHY = """
from neuron_explorer._native import NativeUnavailable, load
try:
    load()
except NativeUnavailable as error:
    print(error.reason, "|", error.advice)
else:
    print("loaded")
"""


def why(cache: Path, **environment: str) -> str:
    out, err = run(WHY, cache, **environment).communicate(timeout=120)
    assert "Traceback" not in err
    return out


def test_without_a_compiler_it_says_so(tmp_path: Path) -> None:
    assert "there is no C++ compiler | install g++" in why(tmp_path, PATH=str(tmp_path), CXX="")


def test_a_compiler_that_fails_is_reported_with_its_log(tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'x.h:1: fatal error: it is broken' >&2\nexit 1\n")
    compiler.chmod(0o755)
    said = why(tmp_path / "cache", CXX=str(compiler))
    assert "the build failed (x.h:1: fatal error: it is broken) | see " in said
    assert not [p for p in (tmp_path / "cache" / "native").glob("build-*") if p.is_dir()]


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert "NEURON_EXPLORER_NATIVE=0" in why(tmp_path, NEURON_EXPLORER_NATIVE="0")


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in why(tmp_path / "file")


def test_an_unknown_python_minor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer._native import NativeUnavailable, build

    monkeypatch.setattr(build, "KNOWN_MINORS", ((3, 9),))
    with pytest.raises(NativeUnavailable, match="frame layout"):
        build._check_platform()


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from neuron_explorer._native import NativeUnavailable, build

    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(NativeUnavailable, match=r"C headers of Python.*python3-dev"):
        build._build(build._Torch("2.13.0", tmp_path, True), build.RECORDER)


def test_a_library_that_all_can_write_is_not_loaded(tmp_path: Path) -> None:
    from neuron_explorer._native import NativeUnavailable, build

    library = tmp_path / "nx.so"
    library.write_bytes(b"")
    library.chmod(0o666)
    with pytest.raises(NativeUnavailable, match="writable by all"):
        build._check_owner(library)


@pytest.mark.slow
def test_two_processes_that_build_at_once_both_load(tmp_path: Path) -> None:
    processes = [run(LOAD, tmp_path) for _ in range(2)]
    outputs = [p.communicate(timeout=300) for p in processes]
    assert [out.strip() for out, _ in outputs] == ["loaded", "loaded"], outputs
    assert len(list((tmp_path / "native").glob("*/nx_recorder.so"))) == 1
    assert (outputs[0][1] + outputs[1][1]).count("building the native recorder") == 1, "one builds, the other waits"
    again, err = run(LOAD, tmp_path).communicate(timeout=60)
    assert again.strip() == "loaded" and "building" not in err


def test_the_library_is_named_by_sources_and_by_how_they_are_compiled(tmp_path: Path) -> None:
    from dataclasses import replace

    from neuron_explorer._native import build

    (tmp_path / "a.cpp").write_text("int a;")
    names = {build._cached_library("2.13.0", build.RECORDER, tmp_path)}
    names.add(build._cached_library("2.13.0", replace(build.RECORDER, optimise="-O3"), tmp_path))
    (tmp_path / "a.cpp").write_text("int b;")
    names.add(build._cached_library("2.13.0", build.RECORDER, tmp_path))
    names.add(build._cached_library("2.14.0", build.RECORDER, tmp_path))
    assert len(names) == 4


def test_sources_edited_during_a_build_do_not_get_the_name_of_what_was_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dataclasses import replace

    from neuron_explorer._native import build

    sources, torch = tmp_path / "src", tmp_path / "torch" / "include" / "ATen"
    sources.mkdir()
    torch.mkdir(parents=True)
    (torch / "record_function.h").write_text("")
    (sources / "a.cpp").write_text("old")
    extension = replace(build.RECORDER, folder=sources, sources=("a.cpp",))
    monkeypatch.setenv("NEURON_EXPLORER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr(build.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    (tmp_path / "Python.h").write_text("")

    def compile_while_edited(compiler: str, work: Path, *rest: object) -> None:
        (sources / "a.cpp").write_text("new")
        (work / f"{extension.module}.so").write_text((work / "a.cpp").read_text())

    monkeypatch.setattr(build, "_compile", compile_while_edited)
    built = build._build(build._Torch("2.13.0", tmp_path / "torch", True), extension)
    assert built.read_text() == "old"
    assert built != build._cached_library("2.13.0", extension, sources)
