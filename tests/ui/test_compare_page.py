"""The page that compares two traces of one server."""

from __future__ import annotations

from pathlib import Path

import pytest
import synthetic

from neuron_explorer.ui.app import create_app
from neuron_explorer.ui.offer import open_offer
from neuron_explorer.ui.page import load_pages, offering, page_url
from neuron_explorer.ui.pages import compare
from neuron_explorer.ui.registry import Registry

from .page_tree import flat, hrefs

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.fixture(scope="module")
def registry():
    return Registry([SAMPLES / "optimizer_before.parquet", SAMPLES / "optimizer_after.parquet"])


def drawn(registry, search):
    later = registry.entries()[1]
    with offering(registry):
        trace = registry.get(later.id)
        return compare.data(trace, search, later.id), flat(compare.layout(later.id, trace, search))


def test_the_other_trace_is_the_earlier_one_unless_it_is_said(registry):
    earlier, later = registry.entries()
    found, page = drawn(registry, {"with": earlier.id})
    assert (found.earlier_id, found.later_id) == (earlier.id, later.id)
    optimizer = next(r for r in found.found.lines if r.key[2] == "optimizer.step()")
    assert (optimizer.before.launches, optimizer.after.launches) == (500, 2)
    assert "Where the change comes from" in page and "fused_optimizer.py" in page
    turned, _ = drawn(registry, {"with": earlier.id, "other": "after"})
    assert turned.found.tree.change_ns == -found.found.tree.change_ns
    assert (turned.earlier_id, turned.later_id) == (later.id, earlier.id)


@pytest.mark.parametrize("by", ["line", "op", "shape", "module", "nonsense"])
def test_each_choice_of_rows_is_drawn(registry, by):
    earlier, _ = registry.entries()
    _, page = drawn(registry, {"with": earlier.id, "by": by})
    assert "launches before" in page


def test_without_a_choice_it_offers_the_others_and_alone_it_says_what_to_do(registry):
    import json

    earlier, later = registry.entries()
    for search in ({}, {"with": "nonsense"}, {"with": later.id}):
        found, page = drawn(registry, search)
        assert found.found is None
        assert page_url(later.id, "/compare", {"with": earlier.id}) in list(hrefs(json.loads(page)))
    alone = Registry([SAMPLES / "optimizer_after.parquet"])
    with offering(alone):
        only = alone.entries()[0]
        said = flat(compare.layout(only.id, alone.get(only.id), {}))
    assert "nxplorer serve before.parquet after.parquet" in said
    assert "/compare" in [page.path for page in load_pages()]


def repeated_runs(folder, lengths):
    """A run of one operator a step for each length, in ns of the operator."""
    folder.mkdir()
    for number, ns in enumerate(lengths):
        events, steps = [], []
        for step in range(6):
            at = 2_000_000 * step
            events.append(synthetic.event("aten::mm", at + 10, ns, file="m.py", line=2, function="f", module="net"))
            steps.append((at, ns + 20_000, "steady" if step else "warmup"))
        rows = synthetic.rows_of(events, steps, {"m.py": "def f(x):\n    return mm(x)\n"})
        synthetic.write(folder / f"r{number}.parquet", rows, synthetic.metadata())


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("repeated")
    repeated_runs(root / "before", [1_000_000 + 1_000 * k for k in range(10)])
    repeated_runs(root / "after", [1_300_000 + 1_100 * k for k in range(10)])
    repeated_runs(root / "one", [900_000])
    return open_offer([root / "before", root / "after", root / "one"])


def of_folder(registry, name):
    return [entry for entry in registry.entries() if entry.path.parent.name == name]


def with_runs(registry, **search):
    mine, other = of_folder(registry, "after")[3], of_folder(registry, "before")[0]
    with offering(registry):
        trace = registry.get(mine.id)
        search = {"with": other.id, **search}
        found = compare.data(trace, search, mine.id)
        return found, flat(compare.layout(mine.id, trace, search))


def test_all_runs_of_two_folders_give_intervals_and_verdicts(folders):
    one, page = with_runs(folders)
    assert one.sides.repeat and not one.sides.all_runs and one.found.step is None
    assert " 10 runs" in page and "All runs of the folders" in page
    found, page = with_runs(folders, runs="all", turns="1")
    assert len(found.found.before) == len(found.found.after) == 10
    assert found.later_id == of_folder(folders, "after")[3].id, "the run that is looked at leads"
    assert found.found.step.verdict == "regression"
    for rows in (found.found.lines, found.found.ops, found.found.shapes, found.found.modules):
        assert [row.compared.verdict for row in rows if row.before and row.after] == ["regression"]
    (part, *_) = found.found.tree.children
    assert part.compared.verdict == "regression" and found.found.tree.compared.low > 1.2
    assert "slower" in page and "times as long" in page
    apart, page = with_runs(folders, runs="all")
    assert apart.found.step.verdict == "suspicious" and "did not run in turn" in page
    turned, _ = with_runs(folders, runs="all", turns="1", other="after")
    assert turned.found.step.verdict == "improvement"


def test_runs_of_one_folder_or_without_one_are_single_runs(folders):
    mine, same = of_folder(folders, "after")[:2]
    with offering(folders):
        found = compare.data(folders.get(mine.id), {"with": same.id, "runs": "all"}, mine.id)
    assert not found.sides.repeat and len(found.found.after) == 1
    named = Registry([entry.path for entry in folders.entries()])
    found, _ = with_runs(named, runs="all")
    assert not found.sides.repeat, "files that were named one by one are no repeated runs"


@pytest.fixture(scope="module")
def client(folders):
    app = create_app([], token="t", port=8050, registry=folders)
    made = app.server.test_client()
    made.get("/?token=t", base_url="http://127.0.0.1:8050")
    return made


def test_the_spans_of_both_steps_are_served_and_nothing_else(folders, client):
    before, after = of_folder(folders, "before")[0], of_folder(folders, "after")[0]

    def ask(path):
        return client.get(path, base_url="http://127.0.0.1:8050")

    url = f"/api/v1/compare/{before.id}/{after.id}/spans"
    reply = ask(url).get_json()
    assert [side["spans"]["duration"] for side in reply["sides"]] == [[1_000_000], [1_300_000]]
    assert ask(f"{url}?at=k2").get_json()["sides"][0]["step"] == 2
    assert ask(f"{url}?at=n<script>").status_code == 200
    assert ask(f"{url}?t0=x").status_code == 400 and ask(f"{url}?t0=1&t1={'9' * 30}").status_code == 400
    assert ask(f"{url}?t0=1100000&t1=1200000").get_json()["sides"][0]["spans"]["start"] == []
    assert ask(f"/api/v1/compare/{before.id}/nothing/spans").status_code == 404
