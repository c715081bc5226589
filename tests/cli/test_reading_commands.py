"""``info``, ``summary`` and ``serve`` on a good trace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest


def test_version(command: Callable) -> None:
    import neuron_explorer

    assert command("--version").out == f"neuron-explorer {neuron_explorer.__version__}\n"


def test_help_names_every_command(command: Callable) -> None:
    out = command("--help").out
    for name in ("record", "info", "summary", "serve", "recover", "redact", "import", "demo"):
        assert f"\n  {name} " in out


def test_info(command: Callable, trace: Path) -> None:
    result = command("info", trace)
    assert result.code == 0 and result.err == ""
    assert "trace.parquet" in result.out
    assert "           3  op\n" in result.out
    assert "source text of the files that ran" in result.out
    assert "device time" in result.out[result.out.index("not observed") :]


def test_nothing_of_a_trace_moves_the_cursor(command: Callable, trace: Path) -> None:
    for arguments in (("info", trace), ("info", "--json", trace), ("summary", trace), ("summary", "-f", "json", trace)):
        assert "\x1b" not in command(*arguments).out


def test_info_as_json(command: Callable, trace: Path) -> None:
    document = json.loads(command("info", "--json", trace).out)
    assert document["schema_version"] == 1
    assert document["counts"]["events"] == 3


@pytest.mark.parametrize("format", ["text", "json", "markdown"])
def test_summary(command: Callable, trace: Path, format: str) -> None:
    result = command("summary", trace, "--format", format)
    assert result.code == 0
    assert "aten::mm" in result.out
    if format == "json":
        json.loads(result.out)


def test_summary_of_steady_steps_where_there_are_none(command: Callable, trace: Path) -> None:
    result = command("summary", trace, "--period", "steady")
    assert result.code == 2 and "Traceback" not in result.err


def test_info_is_quick(trace: Path) -> None:
    """It costs little more than what it cannot do without: the interpreter and pyarrow's reader."""
    programs = {
        "info": [sys.executable, "-m", "neuron_explorer", "info", str(trace)],
        "least": [sys.executable, "-c", "import pyarrow.parquet, json"],
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(3):
        for name, program in programs.items():
            began = time.monotonic()
            subprocess.run(program, check=True, capture_output=True)
            times[name].append(time.monotonic() - began)
    assert min(times["info"]) < 5 * min(times["least"]), times


def test_serve_needs_its_token(trace: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "neuron_explorer", "serve", str(trace), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = ""
        for line in server.stdout:
            if "http://127.0.0.1:" in line:
                url = line.partition("http")[1] + line.partition("http")[2].strip()
                break
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url.partition("?")[0], timeout=30)
        assert refused.value.code in (401, 403)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(url, timeout=30) as page:
            assert page.status == 200
            assert b"<html" in page.read(4096).lower()
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_export_writes_a_report_once(command, trace, tmp_path):
    target = tmp_path / "report.html"
    assert command("export", trace, "--format", "html", "-o", target).code == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "train.py:7" in text and "\x1b" not in text
    again = command("export", trace, "-o", target)
    assert again.code == 4 and "exists" in again.err and "Traceback" not in again.err
    assert command("export", trace, "-o", target, "--force").code == 0
    assert command("export", trace, "-o", tmp_path / "no" / "x.html").code == 4
    assert command("export", trace, "-o", tmp_path).code == 4
    assert command("export", tmp_path / "none.parquet").code == 4
    assert command("export", trace, "--format", "pdf").code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "trace.parquet"]
