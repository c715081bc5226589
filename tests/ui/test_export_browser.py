"""What leaves the page (files, Markdown, the report), and what the page says about its trace, in a real browser."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import sys

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def saved(page, selector):
    """Name and content of the file that a click downloads."""
    with page.expect_download() as download:
        page.click(selector)
    with open(download.value.path(), "rb") as file:
        return download.value.suggested_filename, file.read()


def test_tables_and_charts_leave_the_page(tab):
    made = tab()
    made.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = made.page
    made.open(made.trace("usual.parquet"), "overview")
    page.wait_for_selector(".js-plotly-plot .bars path")

    name, body = saved(page, "[data-export-name=lines-that-cost-most] [data-export=csv]")
    assert name == "lines-that-cost-most.csv"
    rows = list(csv.DictReader(io.StringIO(body.decode("utf-8-sig"), newline="")))
    assert rows[0]["line"] == "model.py:2" and rows[0]["code"] == "y = a @ b # product"
    assert len(rows) == page.locator(".lines-table tbody tr").count()

    page.click("[data-export-name=lines-that-cost-most] [data-export=markdown]")
    expect(page.locator("[data-export-name=lines-that-cost-most] [data-export=markdown]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied[0].startswith("| line | code | self a step |") and copied[1].startswith("| --- | --- | ---: |")
    assert copied[2].startswith("| model.py:2 |")

    for chart in ("step-times", "a-step-and-its-parts"):
        name, body = saved(page, f"[data-export-name={chart}] [data-export=svg]")
        assert name == f"{chart}.svg" and body.startswith(b"<svg")
        # It is well-formed, and holds what the page shows.
        from xml.etree import ElementTree

        texts = [e.text for e in ElementTree.fromstring(body).iter("{http://www.w3.org/2000/svg}text")]
        assert any(t and ("forward" in t or "step" in t) for t in texts)
        name, body = saved(page, f"[data-export-name={chart}] [data-export=png]")
        assert name == f"{chart}.png" and body.startswith(b"\x89PNG") and len(body) > 5_000
    assert made.trouble == []


def test_the_report_opens_offline(tab, tmp_path):
    made = tab()
    made.open(made.trace("hostile.parquet"), "overview")
    name, body = saved(made.page, "text=Report")
    assert name == "hostile-report.html"
    (tmp_path / name).write_bytes(body)
    page = made.context.new_page()
    said, asked = [], []
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("request", lambda r: asked.append(r.url))
    colours = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto((tmp_path / name).as_uri())
        colours[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for width in (800, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert colours["light"] != colours["dark"]
    assert page.locator("svg rect").count() > 12
    assert page.evaluate("window.hacked === undefined")
    assert said == [] and {u.split(":")[0] for u in asked} == {"file"}


def test_a_replaced_trace_and_a_stopped_server_are_said(browser, traces, tmp_path, request):
    conftest = _conftest(request)
    path = tmp_path / "t.parquet"
    shutil.copy(traces["usual"], path)
    served = conftest.Served(path)
    made = conftest.Tab(browser, served, (1440, 900))
    try:
        banner = made.page.locator("#banner")
        expect(banner).to_be_hidden()
        shutil.copy(traces["stepless"], tmp_path / "new")
        os.replace(tmp_path / "new", path)
        expect(banner).to_contain_text(re.compile(r"replaced \d+ s ago"), timeout=15_000)
        banner.get_by_role("button", name="Reload").click()
        expect(made.page.locator(".scope-text")).not_to_contain_text("11 steady")
        expect(banner).to_be_hidden()
        assert made.overflow() <= 0 and made.trouble == []
        served.stop()
        expect(banner).to_contain_text("does not answer", timeout=15_000)
        port = int(served.origin.rsplit(":", 1)[1])
        again = conftest.Served(path, port=port)
        try:
            if again.origin == served.origin:
                expect(banner).to_contain_text("started again", timeout=15_000)
                made.page.goto(served.origin)
                expect(made.page.get_by_role("heading")).to_have_text("Neuron Explorer: no access")
                made.page.goto(again.url)
                made.page.wait_for_selector("#content .card")
        finally:
            again.stop()
    finally:
        made.context.close()
        if served.process.poll() is None:
            served.stop()


def _conftest(request):
    """The module that this folder's conftest was loaded as."""
    plugins = request.config.pluginmanager.get_plugins()
    folder = str(request.path.parent)
    return sys.modules[
        next(p.__name__ for p in plugins if getattr(p, "__file__", "").startswith(f"{folder}/conftest"))
    ]
