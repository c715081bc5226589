"""The server: where it listens, what it prints, how it starts and stops."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from neuron_explorer.errors import BadTraceError
from neuron_explorer.ui import serve as module
from neuron_explorer.ui.serve import AddressError, announcement, listen, serve, trace_paths


def test_a_taken_port_gives_the_next_free_one():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listen("127.0.0.1", port) as second:
            assert second.getsockname()[1] > port
        with pytest.raises(AddressError, match="choose another"):
            listen("127.0.0.1", port, tries=1)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "*"])
def test_every_network_is_refused(host):
    with pytest.raises(AddressError, match="every network"):
        listen(host, 0)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(AddressError, match="cannot listen"):
        listen("192.0.2.1", 8050)


def test_one_url_is_printed():
    lines = announcement("127.0.0.1", 8050, 8050, "TOKEN", display=True)
    assert [line for line in lines if "http://" in line] == ["Neuron Explorer: http://127.0.0.1:8050/?token=TOKEN"]
    assert not any("ssh" in line for line in lines)


def test_without_a_display_the_tunnel_is_printed():
    lines = announcement("127.0.0.1", 8050, 8051, "TOKEN", display=False)
    assert lines[0] == "Port 8050 is taken; using 8051."
    assert any(f"ssh -L 8051:127.0.0.1:8051 {socket.gethostname()}" in line for line in lines)


def test_beyond_loopback_is_warned():
    assert any("Warning" in line for line in announcement("10.0.0.5", 8050, 8050, "T", True))
    assert any("http://[::1]:8050/" in line for line in announcement("::1", 8050, 8050, "T", True))


def test_a_display_is_not_assumed_over_ssh(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
    assert not module.has_display()


def test_a_directory_stands_for_its_traces(tmp_path):
    for name in ("b.parquet", "a.parquet", "notes.txt"):
        (tmp_path / name).write_text("x")
    assert [p.name for p in trace_paths([tmp_path, tmp_path / "a.parquet"])] == ["a.parquet", "b.parquet"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadTraceError, match=r"\*\.parquet"):
        trace_paths([tmp_path / "empty"])


def test_a_bad_trace_is_refused_before_anything_is_served(traces):
    said = []
    with pytest.raises(BadTraceError):
        serve([traces["usual"], traces["broken"]], port=0, say=said.append)
    with pytest.raises(BadTraceError):
        serve([], port=0, say=said.append)
    assert said == []


def test_the_first_request_is_answered_soon_and_ctrl_c_ends_it(traces, served_alone):
    server, started = served_alone
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(server.url, timeout=20) as reply:
        assert reply.status == 200
        page = reply.read().decode()
    took = time.monotonic() - started
    assert "Neuron Explorer" in page
    # The goal is 2 s; the limit leaves room for a busy machine.
    assert took < 8, f"the first page took {took:.1f} s"
    assert "Server" not in reply.headers or "waitress" not in reply.headers["Server"]
    assert server.stop() == 0
    assert not any("Traceback" in line for line in server.lines)


@pytest.fixture
def served_alone(traces, request):
    started = time.monotonic()
    server = sys.modules[_conftest(request)].Served(traces["usual"])
    yield server, started
    if server.process.poll() is None:
        server.stop()


def _conftest(request) -> str:
    """Name of the module that this folder's conftest was loaded as."""
    plugins = request.config.pluginmanager.get_plugins()
    folder = str(request.path.parent)
    return next(p.__name__ for p in plugins if getattr(p, "__file__", "").startswith(f"{folder}/conftest"))


def test_serving_imports_no_torch_and_no_pandas():
    code = (
        "import sys; import neuron_explorer.ui.app, neuron_explorer.ui.page as p; p.load_pages();"
        "print([m for m in ('torch', 'pandas', 'plotly.express') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
