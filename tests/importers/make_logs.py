"""Records the logs in ``data/``: small, and without a name of the machine that they were made on.

    python tests/importers/make_logs.py NAME      # under the torch that the log is to be of

Records that no reader here looks at are dropped, configurations are cut to the entries that are
read, and directories are renamed; the MD5 of each payload is made anew, so the logs are whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = re.compile(
    r"str|chromium_event|dynamo_start|(?:bwd_)?compilation_metrics|dynamo_output_graph|dynamo_cpp_guards_str|"
    r"aot_backward_graph|compiled_autograd_graph|"
    r"artifact:(?:recompile_reasons|dynamo_graph_break_reason|torch_version|\w+_cache_(?:hit|miss|bypass))"
)
CONFIG = ("recompile_limit", "accumulated_recompile_limit", "cache_size_limit", "accumulated_cache_size_limit")
RENAMED = [
    (sysconfig.get_paths()["purelib"], "/home/user/venv/lib/python3/site-packages"),
    (sysconfig.get_paths()["stdlib"], "/usr/lib/python3"),
    (str(HERE), "/home/user/project"),
    (os.path.realpath(sys.prefix), "/home/user/venv"),
]


def record(directory: Path, backend: str, parts: list[str]) -> str:
    environment = os.environ | {"TORCH_TRACE": str(directory), "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache")}
    subprocess.run([sys.executable, str(HERE / "log_program.py"), backend, *parts], env=environment, check=True)
    (log,) = directory.glob("*.log")
    return log.read_text()


def trimmed(text: str) -> str:
    for found, shown in RENAMED:
        text = text.replace(found, shown)
        text = text.replace(found.lstrip("/"), shown.lstrip("/"))
    out: list[str] = []
    for entry in re.split(r"\n(?!\t)", text.rstrip("\n")):
        line, _, payload = entry.partition("\n")
        head, _, body = line.partition("] ")
        fields = json.loads(body)
        name = next(iter(fields))
        if name == "artifact":
            name = f"artifact:{fields['artifact']['name']}"
        payload = payload[1:].replace("\n\t", "\n") if payload else ""
        if not KEPT.fullmatch(name) or (name == "chromium_event" and not worth(json.loads(payload))):
            continue
        if name.endswith("compilation_metrics"):
            fields[name] = metrics(fields[name])
        elif name == "chromium_event":
            event = json.loads(payload)
            event["args"] = {k: v for k, v in event.get("args", {}).items() if k in ("compile_id", "cache_state")}
            payload = json.dumps(event, indent=0)
        elif "_cache_" in name:
            payload = json.dumps({k: v for k, v in json.loads(payload).items() if k != "components"})
        elif name == "artifact:dynamo_graph_break_reason":
            payload = payload.split("\nTraceback (most", 1)[0]
        if "has_payload" in fields:
            fields["has_payload"] = hashlib.md5(payload.encode()).hexdigest()
        out.append(f"{head}] {json.dumps(fields)}")
        if payload:
            out.append("\t" + payload.replace("\n", "\n\t"))
    return "\n".join(out) + "\n"


def worth(event: dict[str, Any]) -> bool:
    return not event["name"].startswith(("pass.", "TritonBundler", "Scheduler", "compile_file", "PyCodeCache"))


def metrics(body: dict[str, Any]) -> dict[str, Any]:
    config = json.loads(body.get("dynamo_config") or "{}")
    kept = {k: v for k, v in body.items() if v is not None and not k.endswith("_config") and "stack_trace" not in k}
    kept["dynamo_config"] = json.dumps({k: config[k] for k in CONFIG if k in config})
    return kept


def main(name: str) -> None:
    runs = {
        f"{name}.log.gz": ("aot_eager", []),
        f"{name}-caches.log.gz": ("inductor", ["caches"]),
    }
    for file, (backend, parts) in runs.items():
        with tempfile.TemporaryDirectory() as directory:
            text = trimmed(record(Path(directory), backend, parts))
            text = text.replace(directory, "/tmp/cache")
        for found in (os.path.expanduser("~"), os.uname().nodename, str(Path.cwd())):
            if len(found) > 4 and found in text:
                raise SystemExit(f"{found} is still in {file}")
        with gzip.GzipFile(HERE / "data" / file, "wb", mtime=0) as out:
            out.write(text.encode())
        print(file, len(text), (HERE / "data" / file).stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1])
