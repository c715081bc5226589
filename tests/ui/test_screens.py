"""Pictures of every page, light and dark, for people to look at.

With NEURON_EXPLORER_SCREENSHOTS=FOLDER they are kept there (CI does that); without it nothing is drawn.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

FOLDER = os.environ.get("NEURON_EXPLORER_SCREENSHOTS", "")
SAMPLES = Path(__file__).parents[2] / "sample_traces"
PAGES = {"gpt_training": None, "compiled_training": ("timeline", "recompiles")}
"""Which pages of which sample; None: all of them."""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not FOLDER, reason="NEURON_EXPLORER_SCREENSHOTS names no folder for pictures"),
]


@pytest.fixture(scope="module")
def server(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for name in PAGES:
        shutil.copy(SAMPLES / f"{name}.parquet", folder)
    started = type(served)(folder)
    yield started
    started.stop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 800])
def test_pictures_of_every_page(server, browser, scheme, width):
    target = Path(FOLDER)
    target.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector(".picker-list a")
    links = {a.inner_text().partition(".")[0]: a.get_attribute("href") for a in page.locator(".picker-list a").all()}
    taken = []
    for trace, chosen in PAGES.items():
        page.goto(server.origin + links[trace])
        page.wait_for_selector("#content .card")
        found = [a.get_attribute("href").split("?")[0].rpartition("/")[2] for a in page.locator("nav a").all()]
        for name in chosen or found:
            page.goto(f"{server.origin}{links[trace].rpartition('/')[0]}/{name}")
            page.wait_for_selector("#content > :not(.loading)")
            page.wait_for_load_state("networkidle")
            if name == "timeline":
                page.wait_for_selector("#timeline-root[data-missing='0']")
            assert page.get_by_text("could not be drawn").count() == 0, f"{trace}: {name}"
            picture = target / f"{trace}-{name}-{scheme}-{width}.png"
            page.screenshot(path=picture, full_page=width < 1000, animations="disabled")
            taken.append(picture)
            assert page.evaluate("document.documentElement.dataset.theme") == scheme
            # A page that is nearly blank packs into a few kilobytes.
            assert picture.stat().st_size > 15_000, f"{picture.name} shows next to nothing"
    context.close()
    assert len(taken) >= 9
