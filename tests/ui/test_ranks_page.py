"""The page of ranks: whose run is shown, what it finds, and the steps of several ranks on one clock."""

from __future__ import annotations

import pytest

from neuron_explorer.ui.app import create_app
from neuron_explorer.ui.offer import open_offer
from neuron_explorer.ui.page import offering
from neuron_explorer.ui.pages import ranks as page
from neuron_explorer.ui.served_run import run_of_trace

from .ranks_run import MS, STEPS, make

BASE = "http://127.0.0.1:8050"
@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return open_offer([make(tmp_path_factory.mktemp("run"))])


@pytest.fixture(scope="module")
def client(registry):
    found = create_app((), token="T", port=8050, registry=registry).server.test_client()
    found.get("/?token=T", base_url=BASE)
    return found


def shown(registry, rank=0, **search):
    entry = registry.entries()[rank]
    with offering(registry):
        trace = registry.get(entry.id)
        return page.data(trace, search, entry.id, 60), page.layout(entry.id, trace, search)


def test_the_run_of_a_trace_and_where_the_explorer_begins(registry, client):
    served = run_of_trace(registry, registry.entries()[3].id)
    assert served is not None and served.mine == 3 and sorted(served.ids) == [0, 1, 2, 3]
    reply = client.get("/", base_url=BASE)
    assert reply.status_code == 302 and reply.headers["Location"] == f"/t/{registry.entries()[0].id}/ranks"


def test_what_is_found(registry):
    data, drawn = shown(registry)
    text = str(drawn)
    assert "rank 2 holds the others up by" in data.ranks.headline
    (slow,) = data.stragglers.table("stragglers").records()
    assert (slow["rank"], slow["cause"], slow["place"]) == (2, "compute", "model.py:20")
    late = data.collectives.table("late").records()
    assert {(row["place"], row["last_rank"]) for row in late} == {("train.py:40", 2)}
    assert 2 in data.chosen and data.refusal == "" and data.step in range(2, STEPS)
    assert "None: all ranks called the same collectives" in text and "Own time by rank" in text
    assert "Step time by rank" in str(shown(registry, heat="step")[1])


def spans(client, registry, query="", rank=0):
    reply = client.get(f"/api/v1/ranks/{registry.entries()[rank].id}/spans{query}", base_url=BASE)
    return reply.status_code, reply.get_json()


def test_steps_are_laid_over_each_other_by_their_collectives(client, registry):
    status, found = spans(client, registry, "?ranks=0,2&step=5")
    assert status == 200
    assert [side["rank"] for side in found["sides"]] == [0, 2]
    assert [side["step"] for side in found["sides"]] == [5, 5]
    bound = found["sides"][1]["error"]
    assert 0 < bound < 2 * MS, "the clocks are hours apart, and the bound is a matter of the collectives"
    # Both ranks were let go by the same all-reduce: the steps begin together, as far as the clocks tell.
    assert abs(found["sides"][0]["begin"] - found["sides"][1]["begin"]) <= bound + 100_000
    place = next(p for p in found["places"] if p["text"] == "model.py:20")
    assert place["each"][1][0] > 1.7 * place["each"][0][0] and place["each"][0][1] == 1
    for side in found["sides"]:
        assert all(side["begin"] <= at <= side["end"] for at in side["spans"]["start"])


def test_a_window_holds_what_is_in_it(client, registry):
    _, whole = spans(client, registry, "?ranks=0,1&step=5")
    _, part = spans(client, registry, "?ranks=0,1&step=5&t0=0&t1=100000")
    assert 0 < len(part["sides"][0]["spans"]["start"]) < len(whole["sides"][0]["spans"]["start"])
    assert part["whole"] == whole["whole"]


@pytest.mark.parametrize("query", ["?t0=-1", "?step=x", "?t1=1e3", "?t0=99999999999999999999"])
def test_numbers_are_checked(client, registry, query):
    assert spans(client, registry, query)[0] == 400


def test_ranks_that_are_not_there_fall_back_to_those_that_are(client, registry):
    assert [s["rank"] for s in spans(client, registry, "?ranks=77,x,-1", 3)[1]["sides"]] == [0, 1, 2, 3]
    assert client.get("/api/v1/ranks/nothing/spans", base_url=BASE).status_code == 404


def test_state_says_how_many_were_read(client, registry):
    shown(registry)
    reply = client.get(f"/api/v1/ranks/{registry.entries()[0].id}/state", base_url=BASE)
    assert reply.get_json() == {"done": reply.get_json()["done"], "of": reply.get_json()["of"], "ready": True,
                                "error": ""}  # fmt: skip


def test_without_collectives_there_is_no_overlay_and_the_reason_is_said(tmp_path):
    registry = open_offer([make(tmp_path / "run", collectives=False)])
    data, drawn = shown(registry)
    assert "cannot be aligned" in data.refusal and "skew that is not there" in data.refusal
    assert "cannot be aligned" in str(drawn)
    client = create_app((), token="T", port=8050, registry=registry).server.test_client()
    client.get("/?token=T", base_url=BASE)
    status, said = spans(client, registry, "?ranks=0,1")
    assert status == 409 and "cannot be aligned" in said["error"]


def test_a_missing_rank_is_said_and_the_rest_is_shown(tmp_path):
    run = make(tmp_path / "run")
    (run / "part_rank=0001" / "trace.parquet").unlink()
    data, drawn = shown(open_offer([run]))
    assert data.ranks.headline.startswith("3 of 4 ranks")
    assert "1 of 4 ranks are missing: 1." in str(drawn)


def test_a_trace_of_one_process_says_how_ranks_are_recorded(traces):
    data, drawn = shown(open_offer([traces["usual"], traces["stepless"]]))
    assert data.served is None and "torchrun" in str(drawn)
