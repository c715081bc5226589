"""``readiness`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_three_formats(command: Callable, trace: Path) -> None:
    text = command("readiness", trace)
    assert text.code == 0
    for title in ("Operators", "Unsupported or changed", "Shape variety", "The host waits", "Floor of", "Notes"):
        assert title in text.out
    assert "\x1b" not in text.out and "predicted" in text.out
    assert command("readiness", trace, "--format", "markdown").out.startswith("# Readiness of trace")
    report = json.loads(command("readiness", trace, "-f", "json").out)
    assert report["readiness_version"] == 1
    assert {f["chip"] for f in report["floor"]["floors"]} == {"trn1", "trn2", "trn3", "inf2"}


def test_one_chip(command: Callable, trace: Path) -> None:
    report = json.loads(command("readiness", trace, "-f", "json", "--chip", "trn2").out)
    assert {f["chip"] for f in report["floor"]["floors"]} == {"trn2"}
    assert command("readiness", trace, "--chip", "gpu").code == 2


@pytest.mark.parametrize("content", [b"", b"this is no trace"], ids=["empty", "foreign"])
def test_what_is_no_trace_is_said_in_one_line(command: Callable, tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(content)
    result = command("readiness", bad)
    assert result.code == 4
    assert len(result.err.strip().splitlines()) == 1
    assert command("readiness", tmp_path / "nowhere.parquet").code == 4
