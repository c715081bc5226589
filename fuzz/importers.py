"""Coverage-guided fuzzing of the importers in Python, with atheris (libFuzzer): ``pip install atheris``.

    nice -n 10 python fuzz/importers.py TARGET FOLDER -max_total_time=600

TARGET is ``json`` (a trace is written, or one sentence says why not), ``twin`` (the native reader and
its twin say the same), ``log`` (TORCH_TRACE) or ``archive`` (zip and tar). FOLDER/corpus is read and
added to; what fails is left in FOLDER/findings. One process, at most 2.5 GB, 30 s for one input.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
with atheris.instrument_imports(include=["neuron_explorer.trace.importers"]):
    from neuron_explorer.trace.importers import archive, import_trace
    from neuron_explorer.trace.importers.archive import contents, tars, zips  # noqa: F401
    from neuron_explorer.trace.importers.chrome_json import importing  # noqa: F401
    from neuron_explorer.trace.importers.chrome_json.records import KINETO_KEYS
    from neuron_explorer.trace.importers.chrome_json.twin import TwinReader
    from neuron_explorer.trace.importers.torch_trace import process  # noqa: F401

from neuron_explorer._native import load_chrome
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.store import load

FOLDER = Path(tempfile.mkdtemp(prefix="nx-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
EVENT = b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1.5,"dur":2,"args":{"External id":1}}'
STAMP = b"V1206 15:24:45.403000 1667746 torch/_dynamo/utils.py:1288] "
WORDS = [
    EVENT, b'"ph":"B"', b'"ph":"E"', b'"ph":"s"', b'"ph":"f"', b'"ph":"C"', b'"ph":"M"', b'"ph":"b"', b'"ph":"e"',
    b'"ph":"i"',
    b'"id":1', b'"args":{', b'"ts":', b'"dur":', b"NaN", b"-1", b"1e300", b'"1.5"', b"9223372036854775807", b"null",
    b'"cat":"kernel"', b'"cat":"python_function"', b'"cat":"cuda_runtime"', b'"name":"process_name"',
    b'"name":"[memory]"',
    b'"stream":7', b'"correlation":3', b'"Python id":1', b'"Python parent id":1', b'"Call stack":"a(1): f;b(2): g"',
    b'"Input Dims":[[1],[]]', b'"name":"ProfilerStep#3"', b'"distributedInfo":{"rank":1e9}', b'"deviceProperties":[{}]',
    b'"traceEvents":[', b'"neuron_explorer":{"schema_version":1}',
    b'"file_info":{"files":{"a":["x",1]},"functions":{"f":["a",1]}}',
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\xff", b"\0", b"\n", b"\n\t", STAMP, b'"has_payload":"0"',
    b'{"dynamo_start":{"stack":[]},"frame_id":0,"frame_compile_id":0,"attempt":0}', b'"chromium_event":{}', b'"rank":0',
    b'{"compilation_metrics":{"co_name":"f"}', b'{"str":["a.py",0]}',
    b"PK\3\4", b"PK\1\2", b"PK\5\6", b"ustar\0", b"0000644\0",
]  # fmt: skip


def packed(pieces: list[tuple[str, bytes]]) -> list[bytes]:
    """A zip, a tar and a packed tar of files."""
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in pieces:
            target.writestr(name, data)
    with tarfile.open(fileobj=tarred, mode="w") as into:
        for name, data in pieces:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            into.addfile(info, io.BytesIO(data))
    short = tarred.getvalue()[:4096]
    return [zipped.getvalue(), short, gzip.compress(short)]


HEAD = b'{"schemaVersion":1,"deviceProperties":[],"traceEvents":['
DOCUMENT = HEAD + EVENT + b"," + EVENT.replace(b":1,", b":2,") + b"]}"
LOG = STAMP + b'{"dynamo_start":{"stack":[]},"frame_id":0,"frame_compile_id":0,"attempt":0}\n'
SEEDS: dict[str, list[bytes]] = {
    "json": [DOCUMENT, b"[" + EVENT + b"]", gzip.compress(DOCUMENT)],
    "twin": [DOCUMENT, b"[" + EVENT + b"]"],
    "log": [LOG, LOG * 2],
    "archive": packed([("r0.json", DOCUMENT), ("log", LOG)]),
}


def imports(data: bytes) -> None:
    """Anything but a trace that opens, or one sentence, is a finding."""
    archive._listed.cache_clear()
    path, output = FOLDER / "input", FOLDER / "out.parquet"
    path.write_bytes(data)
    try:
        report = import_trace(path, output, overwrite=True)
    except NeuronExplorerError as error:
        assert "\n" not in str(error) and error.exit_code == 4, error
        return
    files = sorted(FOLDER.glob("out-traces/*.parquet")) if report.output.is_dir() else [report.output]
    for file in files:
        with load(file) as trace:
            rows = trace.read(("start", "duration", "self", "id", "parent", "detail", "kind", "name")).to_pylist()
            assert trace.metadata["counts"]["events"] == len(rows)
            json.dumps(trace.metadata, allow_nan=False)
        assert len({r["id"] for r in rows}) == len(rows)
        assert all(r["start"] >= 0 and (r["detail"] is None or isinstance(json.loads(r["detail"]), dict)) for r in rows)
        file.unlink()
    left = sorted(p.name for p in FOLDER.iterdir() if p.name not in ("input", "out-traces"))
    assert not left, f"left behind: {left}"


def alike(data: bytes) -> None:
    """The native reader and its twin."""
    size = 1 + len(data) % 37
    pieces = [data[i : i + size] for i in range(0, len(data), size)] or [b""]
    answers = []
    for kind in (load_chrome().Reader, TwinReader):
        reader = kind(dict(KINETO_KEYS), 500)
        records = b"".join(bytes(reader.feed(piece, n == len(pieces) - 1)) for n, piece in enumerate(pieces))
        answers.append((records, reader.texts(), reader.header(), reader.faults(), reader.state()))
    assert answers[0] == answers[1], answers


TARGETS: dict[str, Callable[[bytes], None]] = {"json": imports, "twin": alike, "log": imports, "archive": imports}


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """Words of the formats in, out and in place of each other; every other time libFuzzer's own changes."""
    chance = random.Random(seed)
    if chance.random() < 0.4:
        return atheris.Mutate(data, most)
    plain = data.startswith(b"\x1f\x8b")
    if plain:
        try:
            data = gzip.decompress(data)[:most]
        except Exception:  # zlib's own too
            return atheris.Mutate(data, most)
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(data))
        size = chance.choice((0, 0, 1, 4, 16))
        data = data[:at] + chance.choice([*WORDS, data[at : at + 60]]) + data[at + size :]
    return (gzip.compress(data) if plain else data)[:most]


def main() -> None:
    """Run a target."""
    if len(sys.argv) < 3 or sys.argv[1] not in TARGETS:
        raise SystemExit(__doc__)
    target, folder = sys.argv[1], Path(sys.argv[2])
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    (folder / "findings").mkdir(exist_ok=True)
    for number, seed in enumerate(SEEDS[target]):
        (folder / "corpus" / f"seed-{number}").write_bytes(seed)
    bounds = ["-timeout=30", "-rss_limit_mb=2500", "-max_len=6000", f"-artifact_prefix={folder}/findings/"]
    again = any(Path(argument).is_file() for argument in sys.argv[3:])  # one finding, and no more
    arguments = [sys.argv[0], *bounds, *sys.argv[3:], *([] if again else [str(folder / "corpus")])]
    atheris.Setup(arguments, TARGETS[target], custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
