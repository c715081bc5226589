"""axe-core's automatic checks on every page, in light and in dark."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="the Python package axe-playwright-python is not installed")

pytestmark = pytest.mark.browser

PAGES = ("overview", "timeline", "bottlenecks?by=line", "bottlenecks?by=op&file=model.py&line=2",
         "bottlenecks?view=tree&file=model.py&line=2", "bottlenecks?view=icicle&q=mm", "bottlenecks?view=scatter",
         "bottlenecks?view=sandwich&of_file=model.py&of_line=2",
         "source?file=model.py&line=2", "recompiles", "readiness", "sql", "about")  # fmt: skip
COLOURS = ["color-contrast", "link-in-text-block"]


def violations(page, rules=None):
    """What axe-core finds: a line a place."""
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **only})
    return [f"{v['id']}: {n['target']} {n['html'][:200]}" for v in found["violations"] for n in v["nodes"]]


def test_every_page_passes_in_light_and_dark(tab):
    axe = (Path(find_spec("axe_playwright_python").origin).parent / "axe.min.js").read_text(encoding="utf-8")
    made = tab()
    trace_id = made.trace("usual.parquet")
    wrong = {}
    for path in ("", *(f"t/{trace_id}/{page}" for page in PAGES)):
        made.page.goto(f"{made.served.origin}/{path}")
        made.settle()
        made.page.evaluate(axe + ";undefined")
        made.page.evaluate("nxTheme.choose('light')")
        wrong[path, "light"] = violations(made.page)
        made.page.evaluate("nxTheme.choose('dark')")
        wrong[path, "dark"] = violations(made.page, COLOURS)
    assert {where: found for where, found in wrong.items() if found} == {}
