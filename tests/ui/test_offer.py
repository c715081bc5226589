"""What `serve` was asked to show, and traces that change while they are served."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from neuron_explorer.errors import BadTraceError
from neuron_explorer.ui import folders
from neuron_explorer.ui.app import create_app
from neuron_explorer.ui.offer import MOST_NAMED, MOST_TRACES, offered, open_offer
from neuron_explorer.ui.registry import Registry
from neuron_explorer.ui.shell import size
from neuron_explorer.ui.watch import age

BASE = "http://127.0.0.1:8050"


@pytest.fixture
def folder(traces, tmp_path):
    """Two traces, and files that look like ones."""
    shutil.copy(traces["usual"], tmp_path / "b.parquet")
    shutil.copy(traces["stepless"], tmp_path / "a.parquet")
    for number in range(MOST_NAMED + 2):
        (tmp_path / f"no{number}.parquet").write_bytes(b"this is no trace")
    (tmp_path / "notes.txt").write_text("x")
    return tmp_path


def client_of(registry):
    client = create_app((), token="T", port=8050, registry=registry).server.test_client()
    client.get("/?token=T", base_url=BASE)
    return client


def ask(client, trace_id, what="state", method="get"):
    reply = getattr(client, method)(f"/api/v1/t/{trace_id}/{what}", base_url=BASE)
    return reply.status_code, reply.get_json()


# ---------------------------------------------------------------- what is offered


def test_a_folder_stands_for_its_traces_and_says_what_it_left_out(folder):
    registry = open_offer([folder])
    assert [e.name for e in registry.entries()] == ["a.parquet", "b.parquet"]
    (note,) = registry.notes
    assert note.startswith(f"Left out {MOST_NAMED + 2} of {MOST_NAMED + 4} files: ")
    assert "no0.parquet is a text file, not a trace" in note and note.endswith("(and 2 more)")


def test_a_file_that_was_named_must_be_a_trace(folder):
    with pytest.raises(BadTraceError, match="not a trace"):
        open_offer([folder / "a.parquet", folder / "no1.parquet"])


def test_a_folder_without_any_trace(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"x")
    with pytest.raises(BadTraceError, match="none of them a trace"):
        open_offer([tmp_path])


def test_the_number_of_traces_is_bounded(traces, tmp_path):
    for number in range(MOST_TRACES + 3):
        os.link(traces["stepless"], tmp_path / f"{number:04}.parquet")
    registry = open_offer([tmp_path])
    assert len(registry.entries()) == MOST_TRACES
    assert registry.notes == (f"3 further files not shown: one server shows {MOST_TRACES} traces.",)


def test_the_list_says_what_each_trace_is(folder):
    registry = open_offer([folder])
    found = registry.describe(registry.entries()[1])
    assert found.start == "2025-10-09T08:53:20Z"
    assert found.device == "cpu" and found.events > 100 and found.bytes == (folder / "b.parquet").stat().st_size
    assert registry.describe(registry.entries()[1]) is found
    (folder / "b.parquet").write_bytes(b"no trace any more")
    assert registry.describe(registry.entries()[1]).events == -1


def test_the_same_name_twice_gets_its_folder(traces, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(traces["stepless"], tmp_path / name / "t.parquet")
    names = [e.name for e in open_offer([tmp_path / "one", tmp_path / "two"]).entries()]
    assert names == ["one/t.parquet", "two/t.parquet"]


def test_what_comes_into_a_folder_later_is_shown(traces, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "EVERY_S", 0.0)
    shutil.copy(traces["stepless"], tmp_path / "a.parquet")
    whole = traces["usual"].read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[:5000])
    registry = open_offer([tmp_path])
    client = client_of(registry)
    assert client.get("/", base_url=BASE).status_code == 302, "one trace: its overview"
    first = registry.entries()
    (tmp_path / "c.parquet").write_bytes(whole[:6000])
    registry.look_for_more()
    assert registry.entries() == first, "neither is whole"
    for name in ("b", "c"):
        (tmp_path / f"{name}.parquet").write_bytes(whole)
    (tmp_path / "notes.txt").write_text("x")
    assert client.get("/", base_url=BASE).status_code == 200, "the list of traces"
    assert [e.name for e in registry.entries()] == ["a.parquet", "b.parquet", "c.parquet"]
    assert registry.entries()[0] is first[0]
    assert registry.get(registry.entries()[2].id).metadata
    # A file that was named alone brings no others with it.
    alone = open_offer([tmp_path / "a.parquet"])
    alone.look_for_more()
    assert len(alone.entries()) == 1


def test_a_folder_is_not_read_at_every_request(traces, tmp_path):
    shutil.copy(traces["stepless"], tmp_path / "a.parquet")
    seen = folders.Folders([tmp_path], [tmp_path / "a.parquet"])
    assert seen.arrived() == []
    shutil.copy(traces["stepless"], tmp_path / "b.parquet")
    assert seen.arrived() == [], "the last look was a moment ago"


def test_sizes_and_ages_in_words():
    assert [size(n) for n in (0, 999, 1_000, 1_234_567, 2 << 40)] == ["0 B", "999 B", "1.00 kB", "1.23 MB", "2.20 TB"]
    assert [age(s) for s in (3, 240, 7200, 432_000)] == ["3 s", "4 min", "2 h", "5 days"]


# ---------------------------------------------------------------- a file that changes


def test_a_replaced_file_is_said_and_shown_when_asked_for(traces, tmp_path):
    path = tmp_path / "t.parquet"
    shutil.copy(traces["stepless"], path)
    registry = Registry([path])
    (entry,) = registry.entries()
    client = client_of(registry)
    old = registry.get(entry.id)
    status, body = ask(client, entry.id)
    assert (status, body["state"], body["text"], body["generation"]) == (200, "current", "", 1)
    shutil.copy(traces["usual"], tmp_path / "new")
    os.replace(tmp_path / "new", path)
    body = ask(client, entry.id)[1]
    assert body["state"] == "replaced" and body["action"] == "Reload" and "was replaced 0 s ago" in body["text"]
    assert registry.get(entry.id) is old
    assert ask(client, entry.id, "refresh", "post") == (200, {"state": "current"})
    assert registry.get(entry.id) is not old
    body = ask(client, entry.id)[1]
    assert body["state"] == "current" and body["generation"] == 2


def test_a_page_is_drawn_from_the_file_that_lies_there(traces, tmp_path):
    path = tmp_path / "t.parquet"
    shutil.copy(traces["stepless"], path)
    registry = Registry([path])
    (entry,) = registry.entries()
    first = registry.get(entry.id)
    registry.renew(entry.id)
    assert registry.get(entry.id) is first
    shutil.copy(traces["usual"], path)
    registry.renew(entry.id)
    assert registry.get(entry.id) is not first


def test_a_deleted_file_is_said_and_no_page_is_blank(traces, tmp_path):
    path = tmp_path / "t.parquet"
    shutil.copy(traces["usual"], path)
    registry = Registry([path])
    (entry,) = registry.entries()
    client = client_of(registry)
    registry.get(entry.id)
    path.unlink()
    body = ask(client, entry.id)[1]
    assert body["state"] == "deleted" and "moved or deleted" in body["text"]
    known = client.get("/_dash-dependencies", base_url=BASE).get_json()
    output = next(one["output"] for one in known if "content.children" in one["output"])
    parts = [part.split(".") for part in output.strip(".").split("...")]
    for page in ("overview", "bottlenecks", "source", "recompiles", "readiness", "about"):
        reply = client.post(
            "/_dash-update-component", base_url=BASE,
            json={
                "output": output,
                "outputs": [{"id": i, "property": p} for i, p in parts],
                "inputs": [{"id": "url", "property": "pathname", "value": f"/t/{entry.id}/{page}"},
                           {"id": "url", "property": "search", "value": ""}],
                "state": [{"id": "page-key", "property": "data"}],
                "changedPropIds": ["url.pathname"],
            },
        )  # fmt: skip
        assert reply.status_code == 200, page
        assert "Traceback" not in reply.get_data(as_text=True)
        assert reply.get_json()["response"]["content"]["children"], page


def test_a_half_written_file_is_said(traces, tmp_path):
    path = tmp_path / "t.parquet"
    shutil.copy(traces["usual"], path)
    registry = Registry([path])
    (entry,) = registry.entries()
    registry.get(entry.id)
    path.write_bytes(traces["usual"].read_bytes()[:5000])
    registry.renew(entry.id)
    with pytest.raises(BadTraceError, match="cut short"):
        registry.get(entry.id)
    shutil.copy(traces["usual"], path)
    assert registry.get(entry.id).metadata


def test_endpoints_know_only_the_ids_of_this_server(traces):
    registry = Registry([traces["usual"]])
    client = client_of(registry)
    for bad in ("x", "..", "%2e%2e%2fetc", "a" * 5000):
        for what, method in (("state", "get"), ("refresh", "post"), ("report", "get")):
            assert ask(client, bad, what, method)[0] in (404, 405)
    # Looking again is no matter of a link.
    reply = client.get(f"/api/v1/t/{registry.entries()[0].id}/refresh", base_url=BASE)
    assert reply.mimetype == "text/html"


def test_the_report_is_a_download(traces, tmp_path):
    path = tmp_path / 'a"b\u00e9.parquet'
    shutil.copy(traces["hostile"], path)
    registry = Registry([path])
    reply = client_of(registry).get(f"/api/v1/t/{registry.entries()[0].id}/report", base_url=BASE)
    assert reply.status_code == 200
    assert reply.headers["Content-Disposition"] == (
        "attachment; filename=\"a_b_-report.html\"; filename*=UTF-8''a%22b%C3%A9-report.html"
    )
    # Its own two, data and drawing; nothing of the trace adds one.
    assert reply.get_data(as_text=True).count("<script") == 2


# ---------------------------------------------------------------- a recording that goes on


def test_a_recording_is_seen_through_snapshots(recording):
    trace, child = recording
    registry = open_offer([trace])
    try:
        (entry,) = registry.entries()
        assert entry.live and entry.name == trace.name
        client = client_of(registry)
        first = registry.get(entry.id).metadata["counts"]["events"]
        body = ask(client, entry.id)[1]
        assert body["state"] == "recording" and body["action"] == "Refresh" and "Still being recorded" in body["text"]
        child.stdin.write("more\n")
        child.stdin.flush()
        child.stdout.readline()
        assert ask(client, entry.id, "refresh", "post")[0] == 200
        assert registry.get(entry.id).metadata["counts"]["events"] > first
        child.stdin.write("end\n")
        child.stdin.flush()
        child.wait(30)
        assert trace.exists()
        body = ask(client, entry.id)[1]
        assert body["state"] == "ended" and body["action"] == "Show the whole trace"
        assert ask(client, entry.id, "refresh", "post")[0] == 200
        assert registry.get(entry.id).path == trace.resolve()
        assert ask(client, entry.id)[1]["state"] == "current"
        folder = registry._snapshots[entry.id].file.parent
        assert folder.is_dir()
    finally:
        registry.close()
    assert not folder.exists()


_PROGRAM = """
import itertools, sys, neuron_explorer, torch
with neuron_explorer.profile(sys.argv[1], recorder="twin") as prof:
    for line in itertools.chain(["first"], iter(sys.stdin.readline, "")):
        if line.strip() == "end":
            break
        for _ in range(200):
            torch.ones(2) + 1
        print("done", flush=True)
"""


@pytest.fixture
def recording(tmp_path):
    """A program that records until it is told to end."""
    trace = tmp_path / "live.parquet"
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(trace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "done\n"
    yield trace, child
    if child.poll() is None:
        child.kill()
    child.wait(10)
    child.stdin.close()
    child.stdout.close()


def test_what_a_killed_program_left_is_shown_and_kept(recording):
    trace, child = recording
    child.kill()
    child.wait(10)
    spool = trace.with_name(trace.name + ".spool")
    registry = open_offer([spool])
    try:
        (entry,) = registry.entries()
        assert registry.get(entry.id).metadata["recovered"] is True
        found = registry.condition(entry.id)
        assert found.state == "ended" and "recover live.parquet" in found.text and not found.action
        assert spool.is_dir() and not trace.exists()
    finally:
        registry.close()


def test_a_folder_names_the_recordings_that_it_does_not_show(traces, tmp_path):
    shutil.copy(traces["stepless"], tmp_path / "a.parquet")
    (tmp_path / "b.parquet.spool").mkdir()
    assert offered([tmp_path]).notes == [
        "1 unfinished recording not shown (b.parquet.spool): name one to look at it."
    ]


def test_the_ranks_of_a_run_are_called_by_their_rank(traces, tmp_path):
    for run in ("a", "b"):
        for rank in (0, 11):
            folder = tmp_path / run / f"part_rank={rank:04d}"
            folder.mkdir(parents=True)
            shutil.copy(traces["stepless"], folder / "trace.parquet")
    registry = open_offer([tmp_path / "a"])
    assert [entry.name for entry in registry.entries()] == ["rank 0", "rank 11"]
    both = open_offer([tmp_path / "a", tmp_path / "b"])
    assert [entry.name for entry in both.entries()] == ["a/rank 0", "a/rank 11", "b/rank 0", "b/rank 11"]
