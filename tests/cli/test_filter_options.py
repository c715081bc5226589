"""Options that narrow the figures: --steps, --phase, --rank, --device, --process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "vision_training.parquet"


def summary(command: Callable, *options: str) -> dict:
    result = command("summary", SAMPLE, "--format", "json", *options)
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_the_summary_is_narrowed(command: Callable) -> None:
    whole = summary(command)
    found = summary(command, "--steps", "3-5", "--phase", "forward", "--phase", "backward")
    assert found["selection"]["filters"] == {"period": "3-5", "phase": "forward,backward"}
    assert found["selection"]["steps"] == 3 and found["selection"]["note"].endswith("forward and backward only")
    assert 0 < found["ops"]["self_ns"] < whole["ops"]["self_ns"]
    assert sum(part["ns"] for part in found["breakdown"]["parts"]) == found["breakdown"]["total_ns"]
    assert summary(command, "--steps", "4")["selection"]["note"] == "step 4 of 12"


def test_findings_are_about_whole_steps(command: Callable) -> None:
    assert summary(command, "--phase", "optimizer")["findings"] == summary(command)["findings"]


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_text_says_what_it_is_about(command: Callable, format: str) -> None:
    said = " ".join(command("summary", SAMPLE, "--steps", "3-5", "--format", format).out.split())
    assert "Figures cover steps 3 to 5 of 12" in said
    assert "mean of 3" in said and "median of 11" not in said


def test_a_report_is_narrowed_where_it_can_be(command: Callable) -> None:
    whole = json.loads(command("report", "ops", SAMPLE, "--format", "json").out)
    found = json.loads(command("report", "ops", SAMPLE, "--format", "json", "--phase", "optimizer").out)
    assert 0 < found["tables"]["ops"]["total_rows"] < whole["tables"]["ops"]["total_rows"]
    refused = command("report", "breakdown", SAMPLE, "--phase", "forward")
    assert refused.code == 2 and "cannot be narrowed by it" in refused.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--steps", "99"), "its steps are 0 to 11"),
        (("--steps", "often"), "is no range of steps"),
        (("--steps", "3", "--period", "all"), "exclude each other"),
        (("--phase", "sideways"), "no phase is called"),
        (("--rank", "4"), "the trace has no rank"),
        (("--device", "tpu"), "there is cpu"),
        (("--process", "1"), "the trace has no process"),
    ],
)
def test_what_the_trace_does_not_have_is_said(command: Callable, options: tuple[str, ...], said: str) -> None:
    result = command("summary", SAMPLE, *options)
    assert result.code == 2 and "Traceback" not in result.err
    assert said in " ".join(result.err.split())
