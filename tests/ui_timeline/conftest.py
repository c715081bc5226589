"""Small traces for the timeline's tests, written with pyarrow alone."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neuron_explorer.trace import schema
from neuron_explorer.ui.registry import Registry

LANE = {"lane": 0, "kind": "thread", "name": "main thread", "rank": 0, "process": 100, "process_name": "main",
        "process_start": 0, "thread": 0, "os_thread": 100, "device": None, "stream": -1}  # fmt: skip


def write_trace(path, columns, *, lanes=None, duration_ns=None, metadata=None, row_group_size=50_000, sources=()):
    """Write a trace; ``columns``: column → list. What is missing gets the schema's default."""
    n = len(next(iter(columns.values()))) if columns else 0
    columns = dict(columns)
    columns.setdefault("id", list(range(n)))
    columns.setdefault("kind", ["op"] * n)
    columns.setdefault("name", ["aten::add.Tensor"] * n)
    for column in ("depth", "lane", "rank", "thread"):
        columns.setdefault(column, [0] * n)
    arrays = {}
    for field in schema.arrow_schema():
        values = columns.get(field.name)
        if values is None:
            empty = None if field.nullable else (False if field.type == pa.bool_() else schema.NONE)
            values = [empty] * n
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, plain)
        arrays[field.name] = array.dictionary_encode() if pa.types.is_dictionary(field.type) else array
    table = pa.table(arrays).cast(schema.arrow_schema())
    document = {
        "schema_version": schema.SCHEMA_VERSION, "start_unix_ns": 1_700_000_000_000_000_000,
        "duration_ns": duration_ns or 0, "versions": {"python": "3.11", "torch": "2.13.0", "neuron_explorer": "0"},
        "device": {"type": "cpu", "name": "CPU", "emulated": False}, "rank": 0, "world_size": 1, "script": "train.py",
        "recorder": "synthetic", "recorder_reason": "", "capabilities": {}, "counts": {"events": n},
        "lanes": [LANE] if lanes is None else lanes,
        "steps": {"rule": "none", "rule_text": "not observed", "count": 0, "steady": 0, "note": ""},
        "attribution": {}, "recovered": False, "finished": True, "settings": {},
        **(metadata or {}),
    }  # fmt: skip
    table = table.replace_schema_metadata({schema.METADATA_KEY: json.dumps(document).encode()})
    pq.write_table(table, path, row_group_size=row_group_size, compression="zstd")
    return document


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    """No test leaves an index in the user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def make_trace(tmp_path):
    """Writes a trace and returns (path, metadata)."""

    def make(columns, name="trace.parquet", **options):
        path = tmp_path / name
        return path, write_trace(path, columns, **options)

    return make


def _beside(name):
    """A module of this folder that tests import (the folder is no package)."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tl_page = _beside("tl_page")


@pytest.fixture(scope="session")
def gpt_path(tmp_path_factory):
    """A trace of six steps."""
    path = tmp_path_factory.mktemp("gpt") / "gpt.parquet"
    tl_page.synthetic().write(path, 5_000)
    return path


@pytest.fixture(scope="session")
def gpt(gpt_path):
    """That trace, served: (port, trace id)."""
    port, stop = tl_page.serve([gpt_path])
    yield port, Registry([gpt_path]).entries()[0].id
    stop()


@pytest.fixture
def open_page(browser):
    pages = []

    def opener(served, query="", **options):
        page = tl_page.Page(browser, *served, query=query, **options)
        pages.append(page)
        return page

    yield opener
    for page in pages:
        page.close()
