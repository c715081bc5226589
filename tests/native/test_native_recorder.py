"""The native recorder, read straight from the files that it writes."""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from neuron_explorer._native import NativeUnavailable, load  # noqa: E402
from neuron_explorer.trace import spool  # noqa: E402
from neuron_explorer.trace.ring import RingedFile  # noqa: E402

try:
    native = load()
except NativeUnavailable as unavailable:
    pytest.skip(f"no native recorder: {unavailable}", allow_module_level=True)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if native.stats() is not None:
        native.stop()


def process_folder(folder: Path, pid: int | None = None) -> Path:
    return folder / f"p{pid or os.getpid()}"


def records(folder: Path, thread: int = 0) -> np.ndarray:
    file = RingedFile(folder / f"t{thread}.events")
    data = file.read(0, file.size)
    file.close()
    rows = np.frombuffer(data[: len(data) // 64 * 64], spool.RECORD)[1:]
    return rows[rows["start"] != 0]


def entries(folder: Path, kind: int) -> list[bytes]:
    data, at, found = (folder / "tables.log").read_bytes(), 0, []
    while at < len(data):
        entry, _, _, length = spool.ENTRY.unpack_from(data, at)
        if entry == kind:
            found.append(data[at + spool.ENTRY.size : at + spool.ENTRY.size + length])
        at += spool.ENTRY.size + length
    return found


def texts(payload: bytes, at: int) -> list[str]:
    found = []
    while at < len(payload):
        (length,) = struct.unpack_from("<I", payload, at)
        found.append(payload[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return found


def names(folder: Path) -> list[str]:
    return ["", *(texts(p, 5)[0] for p in entries(folder, spool.NAME))]


def named(folder: Path, name: str, thread: int = 0) -> np.ndarray:
    rows = records(folder, thread)
    return rows[rows["name"] == names(folder).index(name)]


def signatures(folder: Path) -> list[list[str]]:
    return [["", "", "", "", ""], *(texts(p, 4) for p in entries(folder, spool.SIGNATURE))]


def test_an_operator_its_children_and_its_signature(folder: Path) -> None:
    x = torch.ones(3, 4)
    native.start(str(folder))
    torch.nn.functional.linear(x, torch.ones(5, 4))
    counts = native.stop()
    here = process_folder(folder)
    rows = records(here)
    assert counts["events"] == len(rows) and counts["dropped"] == 0
    outer = named(here, "aten::linear")[0]
    index = list(rows["name"]).index(outer["name"])
    children = rows[rows["parent"] == index]
    assert len(children) >= 1
    assert (children["start"] >= outer["start"]).all() and (children["end"] <= outer["end"]).all()
    assert outer["self"] == outer["end"] - outer["start"] - (children["end"] - children["start"]).sum()
    assert outer["flags"] & spool.OWN_STACK and not children["flags"].any()
    assert (children["stack"] == outer["stack"]).all()
    assert signatures(here)[outer["sig"]] == [
        "[[3,4],[5,4],null]", "[[4,1],[4,1],null]", '["float32","float32",null]', "[null,null,null]", "cpu",
    ]  # fmt: skip


def test_arguments_are_named_and_bounded(folder: Path) -> None:
    x = torch.ones(2, 2)
    many = [torch.ones(1) for _ in range(100)]
    native.start(str(folder))
    x.to(torch.float16)
    torch.cat(many)
    torch.einsum("ij,jk->ik", x, x)
    native.stop()
    here = process_folder(folder)
    table = signatures(here)
    assert json.loads(table[named(here, "aten::to.dtype")[0]["sig"]][3])[1] == "float16"
    cat = table[named(here, "aten::cat")[0]["sig"]]
    assert json.loads(cat[0])[0] == [[1]] * 8 + ["92 more, 92 elements"]
    assert json.loads(table[named(here, "aten::einsum")[0]["sig"]][3])[0] == "ij,jk->ik"


def test_a_float_that_changes_each_step_does_not_fill_the_table(folder: Path) -> None:
    x = torch.ones(4)
    native.start(str(folder))
    for i in range(2000):
        x.mul(i + 0.5)
    native.stop()
    here = process_folder(folder)
    table = signatures(here)
    assert len(table) < 200
    assert json.loads(table[named(here, "aten::mul.Tensor")[-1]["sig"]][3])[1] in (None, "varies")


def test_ranges_that_end_out_of_order_keep_their_own_times(folder: Path) -> None:
    native.start(str(folder))
    first, second = torch.profiler.record_function("first"), torch.profiler.record_function("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    torch.ones(1)
    second.__exit__(None, None, None)
    native.stop()
    here = process_folder(folder)
    a, b = named(here, "first")[0], named(here, "second")[0]
    assert a["start"] < b["start"] < a["end"] < b["end"]
    assert a["flags"] & spool.OUT_OF_ORDER
    ones = named(here, "aten::ones")[0]
    assert records(here)[ones["parent"]]["name"] == b["name"]


def test_a_range_that_ends_on_another_thread_does_not_adopt_what_follows(folder: Path) -> None:
    native.start(str(folder))
    token = native.begin(spool.RANGE, "asynchronous")
    thread = threading.Thread(target=lambda: native.end(token))
    thread.start()
    thread.join()
    torch.ones(1)
    counts = native.stop()
    here = process_folder(folder)
    assert counts["late_ends"] == 1
    row = named(here, "asynchronous")[0]
    assert row["end"] > row["start"] and row["flags"] & spool.OUT_OF_ORDER
    assert named(here, "aten::ones")[0]["parent"] == spool.NO_RECORD


def test_an_end_after_the_recording_is_ignored(folder: Path) -> None:
    native.start(str(folder))
    token = native.begin(spool.RANGE, "unended")
    native.stop()
    native.end(token)
    assert named(process_folder(folder), "unended")[0]["end"] == 0


def test_what_python_adds(folder: Path) -> None:
    native.start(str(folder))
    now = native.now()
    native.add(spool.COUNTER, "switches", now, now, seq=7)
    token = native.begin(spool.GC, "generation 2")
    native.end(token, 11, 2)
    native.stop()
    here = process_folder(folder)
    counter, collection = named(here, "switches")[0], named(here, "generation 2")[0]
    assert (counter["start"], counter["end"], counter["seq"]) == (now, now, 7)
    assert (collection["seq"], collection["aux"], collection["kind"]) == (11, 2, spool.GC)


def test_threads_get_files_of_their_own(folder: Path) -> None:
    def work() -> None:
        torch.zeros(2)

    native.start(str(folder))
    torch.ones(1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/fd")) < before + 10, "threads that ended gave their files back"
    native.stop()
    here = process_folder(folder)
    assert sum(len(records(here, t)) for t in range(1, 21)) >= 20
    assert len(entries(here, spool.THREAD)) == 21


def test_what_a_compiler_runs_is_counted_only(folder: Path) -> None:
    native.start(str(folder))
    native.compiling(True)
    torch.ones(3).sin()
    assert native.begin(5, "gc generation 0") == 0
    elsewhere = threading.Thread(target=lambda: torch.ones(3).cos())
    elsewhere.start()
    elsewhere.join()
    native.compiling(False)
    torch.ones(3).tan()
    counters = native.stop()
    assert counters["tracing_ops"] >= 2
    here = process_folder(folder)
    known = names(here)
    seen = {known[row["name"]] for thread in (0, 1) for row in records(here, thread)}
    assert {"aten::cos", "aten::tan"} <= seen
    assert "aten::sin" not in seen


def test_pause_records_nothing(folder: Path) -> None:
    native.start(str(folder))
    native.pause()
    torch.ones(1)
    native.resume()
    torch.zeros(1)
    native.stop()
    here = process_folder(folder)
    assert "aten::ones" not in names(here) and len(named(here, "aten::zeros")) == 1


@pytest.mark.parametrize("use_map", [True, False])
def test_many_events_cross_windows(folder: Path, use_map: bool) -> None:
    x = torch.ones(1)
    native.start(str(folder), chunk_bytes=4096, use_map=use_map)
    token = native.begin(spool.RANGE, "outer")
    for _ in range(500):
        x.abs()
    native.end(token)
    native.stop()
    here = process_folder(folder)
    rows = records(here)
    assert len(named(here, "aten::abs")) == 500
    assert (rows["end"] >= rows["start"]).all() and (np.diff(rows["start"].astype(np.int64)) >= 0).all()
    outer = named(here, "outer")[0]
    assert outer["end"] >= rows["end"].max()
    children = rows[rows["parent"] == 0]
    assert outer["self"] == outer["end"] - outer["start"] - (children["end"] - children["start"]).sum()


def test_storages_and_versions(folder: Path) -> None:
    x = torch.ones(4)
    native.start(str(folder), tensors=True)
    x.abs()
    x.add_(1)
    x.abs()
    native.stop()
    here = process_folder(folder)
    kind = np.dtype([("event", "<u4"), ("argument", "<u2"), ("position", "<u2"), ("storage", "<u8"),
                     ("version", "<u8"), ("pad", "<u8")])  # fmt: skip
    rows = np.fromfile(here / "t0.tensors", dtype=kind)
    rows = rows[rows["storage"] != 0]
    events = records(here)
    at = [i for i in range(len(events)) if names(here)[events[i]["name"]] == "aten::abs" and events[i]["depth"] == 0]
    first, second = (rows[(rows["event"] == i) & (rows["argument"] == 0)][0] for i in at)
    assert first["storage"] == second["storage"] and second["version"] == first["version"] + 1


def test_a_forked_child_writes_files_of_its_own(folder: Path) -> None:
    native.start(str(folder))
    torch.ones(1)
    child = os.fork()
    if child == 0:
        torch.zeros(3)
        torch.zeros(3)
        os._exit(0)
    os.waitpid(child, 0)
    torch.ones(1)
    native.stop()
    mine, its = process_folder(folder), process_folder(folder, child)
    assert len(named(mine, "aten::ones")) == 2 and "aten::zeros" not in names(mine)
    assert len(named(its, "aten::zeros")) == 2
    about = json.loads((its / "process.json").read_text())
    assert about["role"] == "forked" and about["parent_pid"] == os.getpid()


def test_forking_while_other_threads_dispatch(folder: Path) -> None:
    stop = threading.Event()
    recorded = [threading.Event(), threading.Event()]

    def busy(mine: threading.Event) -> None:
        x = torch.ones(1)
        while not stop.is_set():
            x.abs()
            mine.set()

    native.start(str(folder))
    workers = [threading.Thread(target=busy, args=(mine,)) for mine in recorded]
    for worker in workers:
        worker.start()
    try:
        # Torch takes a mutex at a thread's first event after the start; a fork in that moment would
        # leave the child waiting for it (docs/limitations.md).
        assert all(mine.wait(60) for mine in recorded)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                torch.zeros(3)
                os._exit(7)
            assert exit_code(child) == 7
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    native.stop()


def exit_code(child: int, seconds: float = 60) -> int | None:
    """The exit code of a child; None, and the child is killed, where it does not end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def test_stop_while_other_threads_dispatch(folder: Path) -> None:
    stop = threading.Event()

    def busy() -> None:
        x = torch.ones(1)
        while not stop.is_set():
            x.abs()

    workers = [threading.Thread(target=busy) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for i in range(20):
            (folder / str(i)).mkdir()
            native.start(str(folder / str(i)), chunk_bytes=4096)
            torch.ones(1)
            time.sleep(0.002)
            native.stop()
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_a_full_disk_stops_the_recording_only(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    native.start(str(folder), chunk_bytes=4096)
    x = torch.ones(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        for _ in range(3000):
            x = x + 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    counts: dict[str, Any] = native.stop()
    assert x.item() == 3001
    assert counts["failed"] and counts["dropped"] > 0
    assert 0 < len(records(process_folder(folder))) < 3000
    assert "recording stopped" in capfd.readouterr().err


def test_modules_that_die_and_come_back_at_the_same_address(folder: Path) -> None:
    def name(parent: object, module: object) -> tuple[str, str]:
        return "", type(module).__name__

    native.start(str(folder), namer=name)
    for cls in (torch.nn.ReLU, torch.nn.Tanh) * 10:
        cls()(torch.ones(1))
    native.stop()
    here = process_folder(folder)
    classes = {i + 1: texts(p[:-4], 8)[1] for i, p in enumerate(entries(here, spool.MODULE))}
    assert {classes[m] for m in named(here, "aten::relu")["module"]} == {"ReLU"}
    assert {classes[m] for m in named(here, "aten::tanh")["module"]} == {"Tanh"}


def test_what_a_killed_process_left_in_its_ring(folder: Path) -> None:
    """Every record is either in the file or in the ring, whatever moment the process dies at."""
    for killed_at in (5, 63, 64, 65, 700):
        (folder / str(killed_at)).mkdir()
        child = os.fork()
        if child == 0:
            native.start(str(folder / str(killed_at)), chunk_bytes=4096)
            outer = native.begin(spool.RANGE, "outer")  # noqa: F841
            for i in range(killed_at):
                native.end(native.begin(spool.RANGE, str(i)))
            os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
        here = process_folder(folder / str(killed_at), child)
        rows = records(here)
        assert [names(here)[n] for n in rows["name"]] == ["outer", *map(str, range(killed_at))]
        assert rows[0]["end"] == 0 and (rows[1:]["end"] >= rows[1:]["start"]).all()
        assert (here / "t0.events.ring").exists()


def test_a_stopped_recording_leaves_no_ring(folder: Path) -> None:
    native.start(str(folder))
    torch.ones(1)
    native.stop()
    assert not list(folder.glob("p*/*.ring"))


def test_nothing_is_kept_alive(folder: Path) -> None:
    import weakref

    native.start(str(folder), tensors=True, namer=lambda parent, module: ("", "M"))
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    out = model(x)
    dead = [weakref.ref(o) for o in (model, x, out)]
    del model, x, out
    assert [r() for r in dead] == [None, None, None]
    native.stop()
