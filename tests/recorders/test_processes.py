"""How programs end, fork, fill the disk: what was recorded stays, and the program is not disturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from .spool_events import read_events

PROGRAM = """
import os, sys, torch, neuron_explorer
prof = neuron_explorer.profile("t.parquet", recorder=sys.argv[1])
"""


def control(spool):
    return [json.loads(f.read_text()) for f in sorted(spool.glob("p*/control.json"))]


@pytest.fixture
def program(run_python, recorder):
    def run(body, **kwargs):
        return run_python(PROGRAM + body, recorder, convert=False, **kwargs)

    return run


def names(tmp_path, **only):
    events = read_events(tmp_path / "t.parquet.spool")
    return [e.name for e in events if all(getattr(e, k) == v for k, v in only.items())]


def conversions(tmp_path):
    file = tmp_path / "t.parquet.converted"
    return file.read_text().count("\n") if file.exists() else 0


def test_program_that_ends_without_stop(program, tmp_path):
    done = program("prof.start()\ntorch.ones(3).exp()\n")
    assert done.stderr == ""
    assert conversions(tmp_path) == 1
    assert "aten::exp" in names(tmp_path)


def test_uncaught_exception_after_start(program, tmp_path):
    done = program("prof.start()\ntorch.ones(3).exp()\nraise ValueError('mine')\n", check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: mine")
    assert conversions(tmp_path) == 1


@pytest.mark.parametrize(
    ("ending", "code"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 15)", -15), ("os.abort()", -6)],
)
def test_program_that_dies(program, tmp_path, ending, code):
    body = f"with prof:\n    for _ in range(500): torch.ones(3).exp()\n    {ending}\n"
    done = program(body, check=False)
    assert done.returncode == code
    assert conversions(tmp_path) == 0
    assert control(tmp_path / "t.parquet.spool") == []
    assert names(tmp_path).count("aten::exp") == 500


def test_interrupt(program, tmp_path):
    body = "import signal\nwith prof:\n    torch.ones(3).exp()\n    signal.raise_signal(signal.SIGINT)\n"
    done = program(body, check=False)
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr
    assert conversions(tmp_path) == 1


def test_forked_child_leaves_the_recording_to_its_parent(program, tmp_path):
    body = """
with prof:
    torch.ones(3).exp()
    pid = os.fork()
    if pid == 0:
        torch.ones(3).sin()
        print("child", flush=True)
    else:
        _, status = os.waitpid(pid, 0)
        assert status == 0
        assert os.path.exists("t.parquet.spool/session.json")
        torch.ones(3).cos()
print("after", flush=True)
"""
    done = program(body)
    assert sorted(done.stdout.split()) == ["after", "after", "child"]
    assert done.stderr == ""
    assert conversions(tmp_path) == 1
    main = max(read_events(tmp_path / "t.parquet.spool"), key=lambda e: e.name == "aten::exp").process
    assert "aten::cos" in names(tmp_path, process=main)
    assert "aten::sin" not in names(tmp_path, process=main)


@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise KeyError('child')", "os._exit(0)"])
def test_forked_child_may_end_as_it_likes(program, tmp_path, ending):
    body = f"""
prof.start()
pid = os.fork()
if pid == 0:
    torch.ones(3).sin()
    {ending}
os.waitpid(pid, 0)
torch.ones(3).cos()
prof.stop()
"""
    program(body)
    assert conversions(tmp_path) == 1
    assert "aten::cos" in names(tmp_path)


def test_profile_in_a_forked_child_is_refused(program):
    body = """
with prof:
    pid = os.fork()
    if pid == 0:
        try:
            neuron_explorer.profile("other.parquet").start()
        except neuron_explorer.ProfilerActiveError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""
    done = program(body)
    assert "forked from one that is recording" in done.stdout


def test_dataloader_workers(program, tmp_path):
    body = """
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((2,), float(i)).tanh()
with prof:
    total = sum(batch.sum().item() for batch in DataLoader(Data(), batch_size=2, num_workers=2))
expected = sum(float(torch.full((2,), float(i)).tanh().sum()) for i in range(8))
assert abs(total - expected) < 1e-4
"""
    done = program(body)
    assert done.stderr == ""
    assert conversions(tmp_path) == 1
    waits = [n for n in names(tmp_path, kind=3) if n.startswith("enumerate(DataLoader)#_MultiProcessing")]
    assert len(waits) == 5


# A full disk ---------------------------------------------------------------------------------

FILL = """
with prof:
    for i in range(5_000):
        x = torch.ones(i % 50 + 1).exp()
        prof.step()
    print("body done", float(x[0]))
print("after", prof.stats["failed"])
"""


def check_full_disk(done, spool):
    assert "body done 2.7182" in done.stdout
    assert "after None" not in done.stdout
    assert "recording stopped" in done.stderr
    assert "stopped early" in done.stderr
    assert done.stderr.count("stopped early") == 1
    events = read_events(spool)
    assert len(events) > 100
    assert {e.name for e in events} >= {"aten::ones", "aten::exp"}


def test_file_size_limit_stops_recording_not_the_program(program, tmp_path):
    body = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (3 << 19, 3 << 19))\n" + FILL
    check_full_disk(program(body), tmp_path / "t.parquet.spool")


def test_full_disk_stops_recording_not_the_program(program, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no small file system can be mounted here")
    try:
        body = FILL.replace(
            "with prof:", 'prof = neuron_explorer.profile("disk/t.parquet", recorder=sys.argv[1])\nwith prof:'
        )
        check_full_disk(program(body), disk / "t.parquet.spool")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_disk_that_is_full_before_the_start(program, tmp_path):
    body = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    prof.start()
except neuron_explorer.OutputError as error:
    print(error)
"""
    done = program(body)
    assert "cannot be written" in done.stdout
    assert not (tmp_path / "t.parquet.spool").exists()


def test_no_file_descriptors_are_left(program):
    body = """
before = sorted(os.listdir("/proc/self/fd"))
with prof:
    torch.ones(3)
assert sorted(os.listdir("/proc/self/fd")) == before
"""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    program(body)
