"""Compile ids, restarts, breaks, failures and cache events agree with what tlparse reports of the same log."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from torch_logs import DATA, compiles, imported

PUBLIC = Path(__file__).parents[3] / "shared" / "traces" / "tlparse_cache_hit_miss.log"
EVENTS = re.compile(r"(?P<event>(?:fx_graph|aotautograd)_cache_(?:hit|miss|bypass)|dynamo_graph_break_reason|"
                    r"recompile_reasons|(?:bwd_)?compilation_metrics)_\d+\.\w+")  # fmt: skip


def executable() -> str | None:
    beside = Path(sys.executable).with_name("tlparse")
    return str(beside) if beside.exists() else shutil.which("tlparse")


pytestmark = pytest.mark.skipif(executable() is None, reason="tlparse is not installed")


def tlparse(log: Path, directory: Path) -> tuple[dict[str, Counter[str]], list[tuple[str, str]]]:
    """Events by compile id (with the attempt), and (compile id, kind) of each failure and restart."""
    subprocess.run(
        [executable(), str(log), "-o", str(directory), "--no-browser", "--overwrite"], check=True, capture_output=True
    )
    found: dict[str, Counter[str]] = {}
    for name, entry in json.loads((directory / "compile_directory.json").read_text()).items():
        compile_id = name.strip("[]").replace("/-/-", "")
        if compile_id == "-/-" or compile_id == "-":
            continue
        matches = (EVENTS.fullmatch(artifact["name"]) for artifact in entry["artifacts"])
        found[compile_id] = Counter(m["event"] for m in matches if m)
    page = (directory / "failures_and_restarts.html").read_text()
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    failures = []
    for row in rows:
        cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td>(.*?)</td>", row, re.DOTALL)]
        if len(cells) >= 2:
            failures.append((cells[0].strip("[]"), cells[1]))
    return found, failures


def ours(rows: list[dict]) -> tuple[dict[str, Counter[str]], list[tuple[str, str]]]:
    """The same, from the trace."""
    found: dict[str, Counter[str]] = {}
    failures = []
    by_id = {row["id"]: row for row in rows}

    def named(row: dict) -> str:
        attempt = row["detail"]["attempt"]
        return f"{row['compile_id']}_{attempt}" if attempt else row["compile_id"]

    for row in compiles(rows):
        detail = row["detail"]
        events = found.setdefault(named(row), Counter())
        events.update(detail.get("facts", {}).get("cache_events", {}))
        if detail["outcome"] not in ("restarted", "unended") and row["compile_id"].count("/"):
            events["bwd_compilation_metrics" if detail["trigger"] == "backward" else "compilation_metrics"] += 1
        if detail["outcome"] == "failed":
            failures.append((named(row), detail["failure"]["type"]))
        if detail["outcome"] != "restarted":
            failures += [(named(row), "RestartAnalysis")] * len(detail["restart_reasons"])
    for row in rows:
        if row["kind"] == "graph_break":
            around = by_id[row["parent"]]
            while around["detail"].get("phase"):
                around = by_id[around["parent"]]
            found[named(around)]["dynamo_graph_break_reason"] += row["detail"]["count"]
        elif row["kind"] == "recompile":
            found[row["compile_id"]]["recompile_reasons"] += 1
    return found, failures


def limits(rows: list[dict]) -> int:
    return sum(row["kind"] == "warning" and row["name"] == "recompile_limit" for row in rows)


def compare(log: Path, tmp_path: Path) -> dict[str, Counter[str]]:
    theirs, their_failures = tlparse(log, tmp_path / "tlparse")
    rows, _ = imported(log, tmp_path)
    mine, my_failures = ours(rows)
    refused = [name for name, events in theirs.items() if name not in mine]
    # What tlparse lists as one more compilation is the attempt that the limit refused.
    assert len(refused) == limits(rows)
    for name in refused:
        assert theirs.pop(name)["recompile_reasons"] == 1
        their_failures = [failure for failure in their_failures if failure[0] != name]
    assert {name: +events for name, events in mine.items()} == {name: +events for name, events in theirs.items()}
    assert sorted(my_failures) == sorted(their_failures)
    return mine


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.log.gz")))
def test_on_our_logs(name, tmp_path):
    log = tmp_path / name.removesuffix(".gz")
    log.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    found = compare(log, tmp_path)
    if "caches" in name:
        assert found["0/0"]["fx_graph_cache_hit"] == 2
    else:
        assert found["1/0"]["dynamo_graph_break_reason"] == 1 and "1/0_1" in found


@pytest.mark.skipif(not PUBLIC.exists(), reason="the public log is not beside this checkout")
def test_on_the_public_log(tmp_path):
    found = compare(PUBLIC, tmp_path)
    assert set(found) == {"0/0", "1/0"}
    assert found["1/0"]["fx_graph_cache_miss"] == 2 and found["1/0"]["fx_graph_cache_hit"] == 1


def test_on_a_log_of_the_installed_torch(tmp_path):
    environment = os.environ | {"TORCH_TRACE": str(tmp_path / "logs")}
    program = Path(__file__).with_name("log_program.py")
    subprocess.run(
        [sys.executable, str(program), "aot_eager", "recompiles", "graph_breaks", "failure", "threads"],
        env=environment, check=True, capture_output=True,
    )  # fmt: skip
    (log,) = (tmp_path / "logs").glob("dedicated_log_torch_trace_*.log")
    found = compare(log, tmp_path)
    assert found["1/0"]["dynamo_graph_break_reason"] == 1
