"""The summary, its findings and its three renderings."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from synthetic import GC_LANE, event, memory_trace

from neuron_explorer.analysis.render_summary import render, render_markdown, render_text
from neuron_explorer.analysis.summary import summary

SOURCE = {"m.py": "import torch\ny = torch.mm(a, b)\nopt.step()\n"}


def training(steps=8, *, wait=0, gc=0, launches=0, name="aten::mm", slow=-1, **changes):
    """Steps of 10 ms: half of it one operator, and what else is asked for."""
    events, periods, at = [], [], 0
    for number in range(steps):
        length = 10_000_000 if number != slow else 40_000_000
        events.append(event(name, at + 100, 5_000_000, file="m.py", line=2, module="layers.3.mlp", phase="forward"))
        events.append(event("aten::add", at + 5_100_000, 100_000, file="m.py", line=1))
        if wait:
            events.append(event("next", at + 5_300_000, wait, kind="data_wait", file="m.py", line=9))
        if gc:
            events.append(event("gc", at + 8_000_000, gc, kind="gc", lane=GC_LANE))
        events += [
            event("aten::mul_", at + 6_000_000 + 6_000 * i, 5_000, file="m.py", line=3, phase="optimizer")
            for i in range(launches)
        ]
        periods.append((at, length, "warmup" if number == 0 else "steady"))
        at += length
    return memory_trace(events, periods, SOURCE, duration_ns=at, **changes)


def keys(trace):
    return [f["key"] for f in summary(trace)["findings"]]


def test_the_dictionary_adds_up_and_is_json():
    data = summary(training())
    assert sum(p["ns"] for p in data["breakdown"]["parts"]) == data["breakdown"]["total_ns"] == 70_000_000
    assert sum(p["share"] for p in data["breakdown"]["parts"]) == pytest.approx(1)
    assert data["steps"]["median_ns"] == 10_000_000
    assert data["lines"]["rows"][0]["code"] == "y = torch.mm(a, b)"
    assert json.loads(render(data, "json")) == json.loads(json.dumps(data))


def test_findings_come_with_their_evidence():
    (line,) = [f for f in summary(training())["findings"] if f["key"] == "line"]
    assert (line["file"], line["line"], line["gain"]) == ("m.py", 2, "up to 50.0 % of a steady step")
    assert "data_wait" not in keys(training())
    assert "data_wait" in keys(training(wait=600_000))
    assert "gc" not in keys(training())
    assert "gc" in keys(training(gc=500_000))
    assert "launches" in keys(training(launches=250))
    assert "launches" not in keys(training(launches=20))
    assert "slow_steps" in keys(training(slow=5))
    assert "dropped" in keys(training(counts={"events": 10, "dropped": 3}))[:1]
    assert keys(training(finished=False))[0] == "unfinished"


def test_nothing_is_made_up():
    quiet = [
        event("aten::mm", 1000 * s + 100 * i, 90, file="m.py", line=i + 1, phase="forward")
        for s in range(6)
        for i in range(10)
    ]
    trace = memory_trace(quiet, [(1000 * s, 1000, "steady") for s in range(6)], duration_ns=6000)
    assert summary(trace)["findings"] == []
    assert "Nothing stands out" in render_text(summary(trace), width=80, color=False)


def test_at_most_five_findings():
    trace = training(12, wait=600_000, gc=500_000, launches=250, slow=5, finished=False, counts={"dropped": 1})
    assert len(keys(trace)) == 5


@pytest.mark.parametrize("width", [80, 100, 120])
def test_text_fits_the_terminal_and_has_no_escapes(width):
    long = "aten::" + "x" * 5000
    text = render_text(summary(training(wait=600_000, launches=250, name=long)), width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    for word in ("A steady step", "Lines that cost most", "m.py:2", "Not observed", "host time", "by prof.step()"):
        assert word in text


def test_colour_only_when_asked():
    assert "\x1b[" in render_text(summary(training()), width=100, color=True)


def test_no_steps_is_said():
    trace = memory_trace([event("aten::mm", 0, 400)], duration_ns=1000)
    text = render_text(summary(trace), width=80, color=False)
    assert "steps: not observed" in text
    assert "self/step" not in text


def test_few_steps_are_not_called_a_median():
    text = render_text(summary(training(4)), width=100, color=False)
    assert "not enough steps" in text
    assert "mean of 3" in text


def test_losses_are_shown():
    counts = {"events": 10, "dropped": 3, "quarantined": 2, "unended": 1, "tracing_ops": 7}
    for text in (
        render_text(summary(training(counts=counts)), color=False),
        render_markdown(summary(training(counts=counts))),
    ):
        assert "events dropped while recording" in text
        assert "impossible times" in text
        assert "end was not seen" in text


def test_hostile_names_stay_text():
    evil = "\x1b]0;owned\x07<script>alert(1)</script>|`a`[x](http://evil)"
    trace = training(name=evil, script=evil, device={"type": evil, "name": ""}, versions={"torch": evil})
    for form in ("text", "markdown"):
        text = render(summary(trace), form)
        assert "\x1b]" not in text and "\x07" not in text
    markdown = render_markdown(summary(trace))
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", markdown)
    assert "<script>" not in outside
    assert "](http" not in outside
    cells = [line.replace("\\|", "") for line in markdown.splitlines() if line.startswith("| ") and "script" in line]
    assert cells and {line.count("|") for line in cells} == {6}


def test_unknown_format_and_period():
    with pytest.raises(ValueError, match="format"):
        render(summary(training()), "pdf")
    with pytest.raises(ValueError, match="period"):
        summary(training(), period="x")


def test_an_empty_trace_has_a_summary():
    data = summary(memory_trace([], duration_ns=0))
    for form in ("text", "markdown", "json"):
        assert render(data, form)


def test_needs_neither_torch_nor_dash():
    code = (
        "import sys; import neuron_explorer.analysis.summary, neuron_explorer.analysis.render_summary;"
        "print([m for m in ('torch', 'dash', 'plotly', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
