"""A run of a few ranks, hand-built (tests/synthetic.py, loaded by path), and a server that speaks S3's protocol."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("synthetic", Path(__file__).parents[1] / "synthetic.py")
if "synthetic" not in sys.modules:
    _MODULE = importlib.util.module_from_spec(_SPEC)
    sys.modules["synthetic"] = _MODULE
    _SPEC.loader.exec_module(_MODULE)

RANKS = 6


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``RANKS`` ranks, as ``profile("run/")`` lays it out; rank r has r + 1 operators."""
    from synthetic import event, metadata, rows_of, write

    directory = tmp_path_factory.mktemp("cluster") / "run"
    for rank in range(RANKS):
        folder = directory / f"part_rank={rank:04d}"
        folder.mkdir(parents=True)
        events = [event("aten::add", 100 * n, 10 + rank) for n in range(rank + 1)]
        about = metadata(rank=rank, world_size=RANKS)
        about["lanes"] = [lane | {"rank": rank} for lane in about["lanes"]]
        write(folder / "trace.parquet", [row | {"rank": rank} for row in rows_of(events)], about)
    return directory


@pytest.fixture(scope="session")
def s3(run_directory: Path):
    """A server that speaks S3's protocol, with the run in ``s3://traces/run``: the options to reach it."""
    moto = pytest.importorskip("moto.server", reason="needs moto[server], a server that speaks S3's protocol")
    pytest.importorskip("s3fs", reason="needs s3fs")
    import s3fs

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "testing", "secret": "testing"}
    system = s3fs.S3FileSystem(**options)
    system.mkdir("traces")
    system.put(f"{run_directory}/", "traces/run/", recursive=True)
    system.pipe("traces/run/notes.txt", b"not a trace")
    system.pipe("traces/empty/notes.txt", b"not a trace")
    yield options
    server.stop()
