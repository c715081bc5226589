"""Traces at an address: on a real server that speaks S3's protocol, in memory, and on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_explorer.cluster.storage import Remote, StorageError, is_address, local_copy, rank_of, traces_at
from neuron_explorer.errors import BadTraceError
from neuron_explorer.trace.store import load

RANKS = 6


def test_what_is_an_address():
    assert is_address("s3://bucket/run") and is_address("simplecache::s3://bucket/run")
    assert not is_address("run/") and not is_address("/a/b://c") and not is_address("C:\\run")


def test_a_directory_of_this_machine(run_directory: Path):
    found = traces_at(str(run_directory))
    assert [rank_of(trace.address) for trace in found] == list(range(RANKS))
    assert all(trace.size == Path(trace.address).stat().st_size for trace in found)
    with local_copy(found[0]) as file:
        assert file == Path(found[0].address)


def test_a_bucket(s3, run_directory: Path):
    found = traces_at("s3://traces/run/", s3)
    assert [rank_of(trace.address) for trace in found] == list(range(RANKS))
    assert found[3].address == "s3://traces/run/part_rank=0003/trace.parquet"
    with local_copy(found[3], s3) as file:
        assert file.read_bytes() == (run_directory / "part_rank=0003" / "trace.parquet").read_bytes()
        with load(file) as trace:
            assert trace.metadata["rank"] == 3
    assert not file.exists(), "the copy goes when it was read"
    assert [t.address for t in traces_at("s3://traces/run/part_rank=0003/trace.parquet", s3)] == [found[3].address]


def test_what_is_not_there(s3, tmp_path: Path):
    for address, words in [("s3://traces/empty", "holds no"), ("s3://traces/nothing", "holds no|cannot be listed")]:
        with pytest.raises(StorageError, match=words):
            traces_at(address, s3)
    with pytest.raises(StorageError, match="cannot be read"):
        traces_at("nosuchthing://bucket/run")
    with (
        pytest.raises(StorageError, match=r"s3://traces/gone\.parquet cannot be read"),
        local_copy(Remote("s3://traces/gone.parquet", 10), s3),
    ):
        pass
    with pytest.raises(BadTraceError, match="holds no trace"):
        traces_at(str(tmp_path))


def test_a_trace_too_large_is_not_copied(s3, monkeypatch):
    monkeypatch.setattr("neuron_explorer.cluster.storage.MOST_BYTES", 100)
    (first, *_) = traces_at("s3://traces/run", s3)
    with pytest.raises(StorageError, match="at most 100 are copied"), local_copy(first, s3):
        pass
    with pytest.raises(StorageError, match="longer than 100 bytes"), local_copy(Remote(first.address, 1), s3):
        pass


def test_without_the_extra_the_error_names_it(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "fsspec":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StorageError, match=r"pip install 'neuron-explorer\[cluster\]'"):
        traces_at("s3://traces/run")
