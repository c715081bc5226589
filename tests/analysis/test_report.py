"""The offline report: what it holds, that it is bounded, and that no text of a trace is markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from compile_traces import MS, SECOND, compilation, recompilation, trace_of
from synthetic import event, memory_trace

from neuron_explorer.analysis.html_text import Markup, element, join, text
from neuron_explorer.analysis.render_html import render
from neuron_explorer.analysis.report import MOST_ALERTS, report

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=1>\x1b[31m\u202e"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "nav", "a", "main", "section",
    "div", "b", "span", "ol", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "code", "pre", "mark",
    "svg", "rect", "line", "text", "dl", "dt", "dd", "footer", "article",
}  # fmt: skip


class Parsed(HTMLParser):
    def __init__(self, document):
        super().__init__()
        self.tags, self.attributes, self.open = set(), [], []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def training(name="aten::mm", file="model.py"):
    events, steps = [], []
    for number in range(12):
        at = number * 10 * MS
        child = event(name, at, 4 * MS, file=file, line=2, function=name, module=name, phase="forward")
        events.append(event("aten::linear", at, 5 * MS, child, file=file, line=2, function=name, phase="forward"))
        steps.append((at, 10 * MS, "warmup" if number == 0 else "steady"))
    changes = {"steps": {"rule": "prof.step", "rule_text": "by prof.step()", "count": 12, "steady": 11, "note": ""}}
    if name != "aten::mm":
        changes |= {"script": name, "device": {"type": name, "name": name}, "settings": {name: name}}
    return memory_trace(events, steps, {file: f"import torch\nx = y  # {name}\n"},
                        duration_ns=120 * MS, **changes)  # fmt: skip


def test_it_holds_what_the_summary_holds():
    document = render(report(training()))
    Parsed(document)
    for part in ("median step, 11 steady", "10.0 ms", "model.py:2", "x = y  # aten::mm", "aten::linear",
                 "12 steps by prof.step()", "cpu", "2.13.0", "the device is the CPU"):  # fmt: skip
        assert part in document, part
    # One bar a step, and one a part of the breakdown.
    assert document.count('<rect class="warmup"') + document.count(' class="warmup"') >= 1
    assert len(re.findall(r"<title>step \d+:", document)) == 12


def test_alerts_come_with_their_evidence_and_source():
    trace = trace_of([compilation(0, SECOND), *(recompilation(n * 2 * SECOND, SECOND, n) for n in range(1, 7))],
                     sources={"model.py": "def a():\n    pass\ndef f(x):\n    return x\n"})  # fmt: skip
    document = render(report(trace))
    (alert,) = report(trace).shown
    Parsed(document)
    assert alert.id in document and "a guard" in document and "x.shape[0]" in document
    assert "<mark>" in document and "def f(x):" in document
    assert "train.py:40" in document


def test_without_observation_it_says_so():
    document = render(report(memory_trace([event("aten::mm", 0, 500)], [], {}, duration_ns=1000)))
    assert "Compilation was not observed" in document


def test_an_empty_trace():
    Parsed(render(report(memory_trace([], [], {}, duration_ns=0, steps={"rule": "none"}))))


def test_nothing_of_a_trace_is_markup_and_nothing_is_loaded():
    document = render(report(training(EVIL, f"{EVIL}.py")))
    parsed = Parsed(document)
    assert parsed.tags <= TAGS, parsed.tags - TAGS
    assert not [n for n, _ in parsed.attributes if n.startswith("on") or n in ("src", "style", "srcset", "action")]
    assert all(value.startswith("#") for name, value in parsed.attributes if name == "href")
    assert "\x1b" not in document and "\u202e" not in document
    assert "url(" not in document and "@import" not in document


def test_the_policy_allows_only_the_style_sheet_inside():
    document = render(report(training()))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document).group(1)
    style = re.search(r"<style>(.*?)</style>", document, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_it_stays_small_however_large_the_trace():
    long = "x" * 20_000
    steps = [(n * MS, MS, "steady") for n in range(5_000)]
    events = [event(f"op{n}{long}", n * MS, 1000, file=f"{n}{long}.py", line=n + 1, module=f"m{n}") for n in range(200)]
    compiles = [
        recompilation(n * MS, 1000, 1, function=f"f{n}", file=f"f{n}.py", line=n + 1, guard=(long + "\n") * 5)
        for n in range(MOST_ALERTS + 20)
    ]
    trace = trace_of([*events, *compiles], steps)
    document = render(report(trace))
    assert len(report(trace).shown) == MOST_ALERTS
    assert len(document.encode()) < 1_000_000
    assert "more alerts" in document and "One bar is the slowest of 13 steps" in document


def test_only_markup_is_not_escaped():
    assert text("<b>") == "&lt;b&gt;"
    assert join((Markup("<b>"), "<b>")) == "<b>&lt;b&gt;"
    assert element("p", '"', title='"', class_="") == '<p title="&quot;">&quot;</p>'
