"""Pipes, sockets, devices, loops of links, files without permission: refused in one line by every command, at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import invoke


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


def _folder_of_odd_things(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "a.json")
    (path / "self").symlink_to(path)
    (path / "b.json").symlink_to("/dev/zero")
    (path / "c.json").symlink_to("c.json")
    (path / "d.zip").symlink_to("/dev/tty")


NODES: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "socket": _socket,
    "loop": lambda p: p.symlink_to(p),
    "endless": lambda p: p.symlink_to("/dev/zero"),
    "terminal": lambda p: p.symlink_to("/dev/tty"),
    "null": lambda p: p.symlink_to("/dev/null"),
    "folder": _folder_of_odd_things,
    "empty_folder": lambda p: p.mkdir(),
    "zip_of_zeros": lambda p: p.write_bytes(b"PK\3\4" + bytes(40)),
    "gzip_of_nothing": lambda p: p.write_bytes(b"\x1f\x8b\x08"),
}
COMMANDS = {
    "import": ["import"], "info": ["info"], "summary": ["summary"], "report": ["report", "idle"],
    "readiness": ["readiness"], "export": ["export"], "serve": ["serve", "--no-open"],
}  # fmt: skip


@pytest.mark.parametrize("command", [*COMMANDS, "check", "compare"])
@pytest.mark.parametrize("node", NODES)
def test_odd_nodes(
    node: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd"
    NODES[node](path)
    arguments = [*COMMANDS.get(command, [command]), str(path)]
    if command == "check":
        (tmp_path / "pyproject.toml").write_text("[tool.neuron-explorer]\nmax_recompiles = 0\n")
        arguments += ["--config", str(tmp_path / "pyproject.toml")]
    elif command == "compare":
        arguments.append(str(path))
    code, out, err = invoke(arguments, monkeypatch, capsys)
    assert (code, out) == (4, ""), (code, out, err)
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1
    assert {p.name for p in tmp_path.iterdir()} <= {"odd", "pyproject.toml"}


@pytest.mark.parametrize("node", [n for n in NODES if n != "null"])
def test_odd_baselines(
    node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd"
    NODES[node](path)
    code, out, err = invoke(["check", "missing.parquet", "--baseline", str(path)], monkeypatch, capsys)
    assert code in (3, 4) and not out
    assert "Traceback" not in err and len(err.strip().splitlines()) == 1


def test_files_without_permission_are_counted_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from neuron_explorer.trace.importers import import_trace

    event = '[{"ph": "X", "name": "f", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]'
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("a.json", "b.json", "closed.json"):
        (folder / name).write_text(event)
    (folder / "notes.md").write_text("# notes")
    may, opened = os.access, Path.open
    monkeypatch.setattr(os, "access", lambda p, mode: "closed" not in str(p) and may(p, mode))

    def refuse(self: Path, *arguments: str, **more: str) -> object:
        if self.name == "closed.json":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    report = import_trace(folder)
    skipped = {s.what: (s.number, s.why) for s in report.skipped}
    assert report.read["traces"] == 2
    assert skipped["files that cannot be read"] == (1, "no permission: closed.json")
    assert skipped["files that are no traces"][0] == 1 and "notes.md" in skipped["files that are no traces"][1]


def test_a_configuration_that_never_ends_is_refused() -> None:
    from neuron_explorer.check.config import ConfigError, load_config

    with pytest.raises(ConfigError, match="not a regular file"):
        load_config(Path("/dev/zero"))
