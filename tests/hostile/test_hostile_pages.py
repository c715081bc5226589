"""The explorer on hostile traces: every page draws or says why not, every endpoint answers within bounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hostile_traces import NUMBERS, TEXTS, honest, hostile_text, write

pytest.importorskip("dash")
MOST_BYTES = 3 << 20


def look_at_everything(path: Path, *, timeline: bool = True) -> list[str]:
    """What broke: pages that raise, endpoints that answer 5xx or too much."""
    import flask
    import plotly.io.json

    from neuron_explorer.ui.app import draw
    from neuron_explorer.ui.page import load_pages
    from neuron_explorer.ui.registry import Registry
    from neuron_explorer.ui.timeline import endpoints

    problems = []
    registry = Registry([path])
    (entry,) = registry.entries()
    pages = load_pages()
    states: tuple[dict[str, str], ...] = ({}, {"by": "op"}, {"by": "module"}, {"by": "op_shape", "period": "all"},
                                          {"file": "a.py", "line": "2"})  # fmt: skip
    for page in pages:
        for state in states if page.path == "/bottlenecks" else states[:1]:
            try:
                text = plotly.io.json.to_json_plotly(draw(registry, pages, page, entry.id, page.path, state))
            except Exception as error:
                problems.append(f"{page.path} {state}: {type(error).__name__}: {str(error)[:200]}")
                continue
            if len(text) > MOST_BYTES:
                problems.append(f"{page.path} {state}: {len(text):,} bytes")
    if not timeline:
        return problems
    server = flask.Flask("test")
    endpoints.register(server, registry)
    client = server.test_client()
    base = f"/api/v1/t/{entry.id}"

    def get(address: str) -> Any:
        try:
            response = client.get(address)
        except Exception as error:
            problems.append(f"{address}: {type(error).__name__}: {str(error)[:200]}")
            return None
        if response.status_code >= 500:
            problems.append(f"{address}: {response.status_code}")
        if len(response.data) > MOST_BYTES:
            problems.append(f"{address}: {len(response.data):,} bytes")
        return response.get_json(silent=True) if response.status_code == 200 else None

    meta: dict[str, Any] | None = None
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        meta = get(f"{base}/meta")
        if meta is None or meta.get("state") != "building":
            break
        time.sleep(0.01)
    if meta is None or meta["state"] != "ready":
        if meta is not None and meta["state"] == "building":
            problems.append("the timeline is never built")
        return problems
    here = f"{base}/{meta['fp']}"
    blocks = ",".join(map(str, range(min(8, len(meta["blocks"])))))
    for shift in (0, 8, 40):
        get(f"{here}/tiles?k={shift}&i=0&b={blocks}")
    for part in ("names?page=0", "hit?track=0&t=5", "event?row=3", "event?id=5", "event?id=0", "search?q=op",
                 f"walk?go=first&b={blocks}", "window?tracks=0-9", "series?k=0&i=0&s=0"):  # fmt: skip
        get(f"{here}/{part}")
    return problems


def test_the_honest_trace(tmp_path: Path) -> None:
    assert look_at_everything(write(tmp_path / "trace.parquet")) == []


@pytest.mark.parametrize("case", NUMBERS)
def test_absurd_numbers(case: str, tmp_path: Path) -> None:
    assert look_at_everything(write(tmp_path / "trace.parquet", lambda c, m: NUMBERS[case](c))) == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_text(text: str, tmp_path: Path) -> None:
    assert look_at_everything(write(tmp_path / "trace.parquet", lambda c, m: hostile_text(text, c, m))) == []


VALUES: dict[str, Any] = {"null": None, "text": "x", "huge": 10**400, "list": [1]}


@pytest.mark.parametrize("name", VALUES)
def test_metadata_of_wrong_types(name: str, tmp_path: Path) -> None:
    """One entry of every part of the document in turn."""
    problems, value = [], VALUES[name]
    for place in ("counts.events", "counts.dropped", "steps.count", "steps.rule_text", "steps.note", "device.name",
                  "device.emulated", "versions.torch", "lanes.0", "lanes.0.name", "lanes.0.process", "lanes.0.lane",
                  "capabilities.stacks", "capabilities.stacks.reason", "attribution.by_attribution", "settings.x",
                  "discloses.source", "overhead.stop_ns"):  # fmt: skip

        def change(columns: object, metadata: Any, place: str = place, value: Any = value) -> None:
            *outer, last = place.split(".")
            for key in outer:
                metadata = metadata[int(key) if isinstance(metadata, list) else key]
            metadata[int(last) if isinstance(metadata, list) else last] = value

        path = write(tmp_path / "trace.parquet", change)
        problems += [f"{place}: {p}" for p in look_at_everything(path, timeline="lanes" in place)]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("column", ["duration", "line", "step", "lane", "parent", "outermost_on_line", "name", "kind"])
def test_nulls(column: str, tmp_path: Path) -> None:
    from neuron_explorer.trace import schema

    n = len(honest()[0]["kind"])
    type_ = schema.arrow_schema().field(column).type
    nulls = pa.nulls(n, pa.string() if pa.types.is_dictionary(type_) else type_)
    assert look_at_everything(write(tmp_path / "trace.parquet", arrow={column: nulls})) == []
