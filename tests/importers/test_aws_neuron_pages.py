"""Reports and pages take a profile of AWS Neuron Explorer as if it were a recording."""

from __future__ import annotations

from pathlib import Path

import pytest
from neuron_tables import device_rows, system_rows, write_profile

from neuron_explorer.analysis.questions import ask, questions
from neuron_explorer.analysis.summary import summary
from neuron_explorer.trace.on_the_fly import ready
from neuron_explorer.trace.store import Trace, load
from neuron_explorer.ui.offer import open_offer
from neuron_explorer.ui.pages import device, overview, roofline

NEEDS_A_TARGET = ("sandwich",)


@pytest.fixture(scope="module", params=["device", "system"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    folder = tmp_path_factory.mktemp("pages") / "profile"
    write_profile(folder, device_rows() if request.param == "device" else system_rows())
    return load(ready(folder))


@pytest.mark.parametrize("name", [n for n in questions() if n not in NEEDS_A_TARGET])
def test_every_report_has_an_answer(trace: Trace, name: str) -> None:
    try:
        assert ask(trace, name).headline
    except ValueError as error:  # those of several ranks say that there is one
        assert "rank" in str(error)


def test_pages_have_their_data(trace: Trace) -> None:
    assert summary(trace)["run"]["device"].startswith("neuron")
    for page in (overview, device, roofline):
        assert page.data(trace, {}) is not None


def test_serve_takes_a_directory_of_tables(tmp_path: Path) -> None:
    folder = write_profile(tmp_path / "profile", device_rows())
    registry = open_offer([folder])
    try:
        assert [entry.path.name for entry in registry.entries()] == ["profile.parquet"]
        assert not registry.notes
    finally:
        registry.close()


def test_bounds_of_the_core_are_on_the_roofline_page(tmp_path: Path) -> None:
    profile = ready(write_profile(tmp_path / "profile", device_rows()))
    with load(profile) as trace:
        found = roofline.data(trace, {})
        drawn = str(roofline.layout("t", trace, {}))
    assert found.bounds is not None
    by_name = {row["bound"]: row["ns"] for row in found.bounds.table("bounds").records()}
    assert (by_name["total"], by_name["compute"], by_name["memory"]) == (100_000, 30_000, 17_000)
    assert "Bounds of this NeuronCore" in drawn and "What keeps the bounds apart" in drawn
