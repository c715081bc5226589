"""The readiness page: its data, its links, its empty states, and how it looks in a browser."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
import synthetic

from neuron_explorer.trace.store import load
from neuron_explorer.ui.pages import readiness

from .page_tree import flat, hrefs

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    """A trace of the emulated device with a fallback, a wait, late shapes and an unsupported dtype."""
    at = {"file": "model.py", "line": 7, "function": "f", "device": "neuron:0", "module": "head"}
    events, steps = [], []
    for number in range(6):
        begin = number * 10_000
        size = 8 if number < 4 else 6
        shapes = {"shapes": f"[[{size},4],[4,4]]", "dtypes": '["float32","float32"]'}
        events += [
            synthetic.event("aten::mm", begin + 100, 2_000, **shapes, **at),
            synthetic.event(
                "aten::argmax", begin + 3_000, 3_000,
                synthetic.event("aten::argmax", begin + 3_100, 2_500, kind="fallback", **shapes, **at,
                                detail='{"bytes_to_host": 4096, "bytes_to_device": 64}'), **shapes, **at),
            synthetic.event("aten::_local_scalar_dense", begin + 7_000, 500, kind="sync", **at),
            synthetic.event("aten::mul.Tensor", begin + 8_000, 500, shapes="[[3],[3]]",
                            dtypes='["float64","float64"]', **at),
        ]  # fmt: skip
        steps.append((begin, 10_000, "warmup" if number == 0 else "steady"))
    meta = synthetic.metadata(
        duration_ns=60_000,
        device={"type": "neuron", "name": "NeuronCore (emulated on the CPU)", "emulated": True},
        capabilities=synthetic.metadata()["capabilities"] | {"fallback": {"observed": True, "reason": ""}},
        steps={"rule": "prof.step", "rule_text": "by prof.step()", "count": 6, "steady": 5, "note": ""},
    )
    path = tmp_path_factory.mktemp("readiness") / "emulated.parquet"
    return synthetic.write(path, synthetic.rows_of(events, steps), meta)


def test_page_of_an_emulated_run(emulated):
    with load(emulated) as trace:
        text = flat(readiness.layout("id", trace, {}))
        report = readiness.data(trace, {})
    assert "emulated" in text and "predicted" not in text and "device time" not in text
    for said in ("Falls back to the CPU", "64-bit floats are narrowed", "The host waits", "{6, 8}×4", "24.6 kB"):
        assert said in text or said.replace("×", "\\u00d7") in text, said
    (fallback,) = report.by_status("fallback")
    assert (fallback.calls, fallback.steady_calls) == (6, 5)
    assert report.shapes.late == 1


def test_links_stay_in_the_app(traces, emulated):
    for path in (traces["hostile"], traces["usual"], emulated):
        with load(path) as trace:
            content = json.loads(flat(readiness.layout("id", trace, {})))
        found = list(hrefs(content))
        assert found and all(h.startswith("/t/id/") for h in found)
        assert any(h.startswith("/t/id/timeline?op=") for h in found)


def test_one_chip_and_odd_states(emulated):
    with load(emulated) as trace:
        one = flat(readiness.layout("id", trace, {"chip": "trn2"}))
        assert {f.chip for f in readiness.data(trace, {"chip": "trn2"}).floor.floors} == {"trn2"}
        assert "667" not in one  # rates are no figure of the page
        assert {f.chip for f in readiness.data(trace, {"chip": "<script>"}).floor.floors} >= {"trn1", "inf2"}


def test_empty_states_teach(traces):
    with load(traces["empty"]) as trace:
        text = flat(readiness.layout("id", trace, {}))
    for said in ("No operator was recorded", "shapes=True", ".item()"):
        assert said in text


@pytest.fixture(scope="module")
def serving(emulated, traces):
    """A server of its own: the other tests' server has no emulated trace."""
    spec = importlib.util.spec_from_file_location("ui_conftest", Path(__file__).parent / "conftest.py")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    server = conftest.Served(emulated, traces["hostile"])
    yield server
    server.stop()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1440, 900, 600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(browser, serving, width, scheme):
    """Nothing is wider than the window, no error on the console, and a line leads to its source."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    trouble: list[str] = []
    try:
        page = context.new_page()
        page.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.goto(serving.url)
        page.wait_for_selector(".picker-list a")
        links = [a.get_attribute("href").split("/")[2] for a in page.locator(".picker-list a").all()]
        assert len(links) == 2
        for link in reversed(links):
            page.goto(f"{serving.origin}/t/{link}/readiness")
            page.wait_for_selector(".readiness .card")
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wider) <= 0
            assert page.evaluate("window.hacked === undefined")
        page.click(".readiness a.line-link")
        page.wait_for_url("**/bottlenecks?*")
        page.wait_for_selector(".ag-row, .empty")
        assert trouble == []
    finally:
        context.close()
