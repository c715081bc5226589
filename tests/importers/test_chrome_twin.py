"""The native reader and its twin in Python say the same of any text, and so do both ways to nest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chrome_traces import SHARED
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neuron_explorer._native import NativeUnavailable, load_chrome
from neuron_explorer.trace.importers.chrome_json.nest import TwinNest
from neuron_explorer.trace.importers.chrome_json.records import KINETO_KEYS, RECORD
from neuron_explorer.trace.importers.chrome_json.source import Source
from neuron_explorer.trace.importers.chrome_json.twin import TwinReader

FILES = sorted([*SHARED.glob("*.json*"), *SHARED.glob("*/*.json*")])


@pytest.fixture(scope="module")
def native() -> Any:
    try:
        return load_chrome()
    except NativeUnavailable as error:
        pytest.skip(str(error))


def read(reader: Any, pieces: list[bytes]) -> tuple[Any, ...]:
    records = b"".join(reader.feed(piece, n == len(pieces) - 1) for n, piece in enumerate(pieces))
    return np.frombuffer(records, RECORD).tolist(), reader.texts(), reader.header(), reader.faults(), reader.state()


def check(native: Any, pieces: list[bytes], bound: int = 1 << 30) -> tuple[Any, ...]:
    keys = dict(KINETO_KEYS)
    found, expected = read(native.Reader(keys, bound), pieces), read(TwinReader(keys, bound), pieces)
    assert found == expected
    return found


@pytest.mark.parametrize("path", FILES or [None], ids=lambda p: p.name if p else "none")
def test_public_files_are_read_alike(native: Any, path: Path | None) -> None:
    if path is None:
        pytest.skip("no public traces beside the checkout")
    source = Source(path, path.stat().st_size)
    pieces, held = [], 0
    for piece in source.pieces():
        pieces.append(piece)
        held += len(piece)
        if held > 1 << 20:  # the rest is more of the same, and the twin takes its time
            break
    check(native, [piece[:300_000] for piece in pieces[:2]] or [b""])


numbers = st.one_of(
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.from_regex(r"[-+]?[0-9]{0,40}\.?[0-9]{0,40}([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(["1e400", "-0", "00.5", "1.", ".5", "NaN", "-Infinity", "true", "null", "1.2.3", "", "x"]),
)
strings = st.text(st.characters(codec="utf-8"), max_size=8).map(json.dumps) | st.sampled_from(
    ['"a"b"', '"\\"', '"\\u12"', '"\x01"', '"', '"1.5"', '""']
)
keys = st.sampled_from(["ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "id2", "args", "s", "External id",
                        "Input Dims", "Call stack", "bytes", "x"]).map(json.dumps)  # fmt: skip
values = st.recursive(
    numbers | strings,
    lambda inner: st.lists(inner, max_size=3).map(lambda v: "[" + ", ".join(v) + "]")
    | st.lists(st.tuples(keys, inner), max_size=4).map(lambda v: "{" + ",".join(f"{a}: {b}" for a, b in v) + "}"),
    max_leaves=12,
)
events = st.lists(st.tuples(keys, values), max_size=6).map(lambda v: "{" + ",".join(f"{a}:{b}" for a, b in v) + "}")
texts = st.builds(
    lambda head, parts, tail: (head + "".join(a + b for a, b in parts) + tail).encode("utf-8", "surrogatepass"),
    st.sampled_from(['{"traceEvents":[', "[", '{"a":1,"traceEvents" : [', "", "\ufeff[", '{"b":{"c":[1]},', "junk ["]),
    st.lists(st.tuples(events | values, st.sampled_from([",", ", ", "", "\n,", "]}", ',,} {"ph":"X"'])), max_size=8),
    st.sampled_from(["]}", "]", "", '],"z":5}', "]} trailing", ',{"ph":"X","ts":1,"dur":']),
)


@settings(max_examples=150, deadline=None)
@given(texts, st.integers(1, 60))
def test_any_text_is_read_alike(native: Any, text: bytes, size: int) -> None:
    check(native, [text[i : i + size] for i in range(0, len(text), size)] or [b""], 500)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_alike(native: Any, data: bytes) -> None:
    check(native, [b'[{"ph":"X","name":"' + data, b'"},\n{"ts":1}]'])


@settings(max_examples=200, deadline=None)
@given(numbers)
def test_times_are_exact(native: Any, token: str) -> None:
    from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

    records = check(native, [f'[{{"ts": "{token}"}}]'.encode()])[0]
    names = RECORD.names or ()
    start, flags = records[0][names.index("start")], records[0][names.index("flags")]
    try:
        plain = token.strip("+-.0123456789eE") == ""
        exact = (Decimal(token) * 1000).quantize(Decimal(1), ROUND_HALF_UP) if plain else None
    except InvalidOperation:
        return  # more digits than Decimal's context has
    if exact is not None and len(token) < 28 and abs(exact) < 1 << 63 and not flags & 2:
        assert start == int(exact)


def test_nanoseconds_do_not_pass_through_a_double(native: Any) -> None:
    ((record, *_), *_) = check(native, [b'[{"ts": 1712195495505543.217, "dur": 0.0005}]'])
    names = RECORD.names or ()
    assert record[names.index("start")] == 1712195495505543217
    assert record[names.index("duration")] == 1


slices = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(-1, 12), st.integers(0, 3), st.integers(1, 3)),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@example([(1, 0, 9, 0, 1), (1, 1, 1, 0, 1), (0, 2, 9, 0, 1), (0, 3, 1, 0, 1)], 1)  # lanes end in their own order
@given(slices, st.integers(1, 10))
def test_nesting_is_alike(native: Any, rows: list[tuple[int, ...]], size: int) -> None:
    rows = sorted(rows, key=lambda r: (r[1], r[3] != 1, -r[2]))
    answers = []
    for worker in (native.Nest(5), TwinNest(5)):
        answer = []
        for i in range(0, len(rows), size):
            part = rows[i : i + size]
            types = (np.int32, np.int64, np.int64, np.uint8, np.int32)
            lane, start, duration, kind, name = (np.array([r[c] for r in part], t) for c, t in enumerate(types))
            out = [np.zeros(len(part), t) for t in (np.int64, np.int16, np.int64, np.int32)]
            answer.append((worker.add(lane, start, duration, kind, name, *out), [o.tolist() for o in out]))
        answer.append((worker.finish(), worker.nodes(), worker.counts()))
        answers.append(answer)
    assert answers[0] == answers[1]
