"""How long, how large and how much memory: a recording becomes a trace.

    python benchmarks/convert.py                 100,000 and 1 million events
    python benchmarks/convert.py 20000000        as many as you like

A recording of GPT training steps is made up (names, nesting, stacks, shapes and sequence
numbers as a real one has them, durations random), then converted in a fresh process. The
time includes the imports of numpy and pyarrow; memory is the growth of the process's largest
resident size over what it was after those imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from neuron_explorer.trace import spool

PROJECT = "/project"
TORCH = "/venv/lib/python3.11/site-packages/torch"
LAYERS = 12


class Template:
    """One training step: records in start order and the order of their begins and ends."""

    def __init__(self, writer: spool.SpoolWriter) -> None:
        self.writer = writer
        self.records: list[dict] = []
        self.edges: list[int] = []  # record, or ~record for its end
        self.open: list[int] = []
        self.number = 0
        self.made: list[tuple[str, int]] = []

    def stack(self, *frames: tuple[str, int, str]) -> int:
        node = 0
        for file, line, function in frames:
            node = self.writer.frame(node, self.writer.code(file, function, max(1, line - 5)), line)
        return node

    def begin(self, name: str, kind: int = spool.OP, *, stack: int = 0, sig: int = 0, module: int = 0, seq: int = -1,
              aux: int = 0) -> int:  # fmt: skip
        parent = self.open[-1] if self.open else None
        up = self.records[parent] if parent is not None else None
        node = spool.NO_RECORD if up is None else (parent if up["kind"] == spool.AUTOGRAD else up["node"])
        self.records.append({
            "name": self.writer.name(name, 0 if kind == spool.OP else 1), "kind": kind, "sig": sig, "seq": seq,
            "aux": aux, "stack": stack or (up["stack"] if up else 0), "module": module or (up["module"] if up else 0),
            "parent": spool.NO_RECORD if parent is None else parent, "node": node, "depth": len(self.open),
            "flags": spool.OWN_STACK if stack else 0,
        })  # fmt: skip
        self.open.append(len(self.records) - 1)
        self.edges.append(self.open[-1])
        return self.open[-1]

    def end(self) -> None:
        self.edges.append(~self.open.pop())

    def op(self, name: str, children: int = 0, grad: bool = False, **more) -> None:
        record = self.begin(name, seq=self.number, **more)
        for child in range(children):
            self.begin(("aten::as_strided", "aten::empty.memory_format", "aten::view", "aten::copy_")[child % 4],
                       sig=more.get("sig", 0), seq=self.number)  # fmt: skip
            self.end()
        if grad:
            self.records[record]["aux"] = 1
            self.made.append((name, self.number))
            self.number += 1
        self.end()


def gpt_step(writer: spool.SpoolWriter) -> Template:
    t = Template(writer)
    main = (f"{PROJECT}/train.py", 30, "main")
    call = (f"{TORCH}/nn/modules/module.py", 1780, "Module._wrapped_call_impl")
    gpt = writer.module(0, "", "GPT", 1)

    def sig(*sizes: tuple[int, ...], arguments: str = "") -> int:
        shapes = json.dumps([list(s) for s in sizes], separators=(",", ":"))
        strides = json.dumps([[int(np.prod(s[i + 1 :])) for i in range(len(s))] for s in sizes], separators=(",", ":"))
        return writer.signature(shapes, strides, json.dumps(["float32"] * len(sizes)),
                                arguments or json.dumps([None] * len(sizes)), "cpu")  # fmt: skip

    x = (8, 256, 768)
    t.op("aten::embedding", 4, True, stack=t.stack(main, call, (f"{PROJECT}/model.py", 60, "GPT.forward")), module=gpt,
         sig=sig((50257, 768), (8, 256)))  # fmt: skip
    for layer in range(LAYERS):
        block = writer.module(gpt, f"layers.{layer}", "Block", 10 * layer + 2)
        attention = writer.module(block, "attention", "Attention", 10 * layer + 3)
        mlp = writer.module(block, "mlp", "MLP", 10 * layer + 4)
        base = (main, call, (f"{PROJECT}/model.py", 64, "GPT.forward"), call)
        for line, module, names in ((20, block, ["aten::layer_norm", "aten::native_layer_norm"]),
                                    (31, attention, ["aten::linear", "aten::chunk", "aten::transpose.int",
                                                     "aten::matmul", "aten::softmax.int", "aten::matmul",
                                                     "aten::linear"]),
                                    (21, block, ["aten::add.Tensor", "aten::layer_norm"]),
                                    (44, mlp, ["aten::linear", "aten::gelu", "aten::linear", "aten::dropout"]),
                                    (22, block, ["aten::add.Tensor"])):  # fmt: skip
            for offset, name in enumerate(names):
                stack = t.stack(*base, (f"{PROJECT}/model.py", line + offset, "Block.forward"), call,
                                (f"{TORCH}/nn/functional.py", 2000 + offset, "f"))  # fmt: skip
                t.op(name, 3 + offset % 3, True, stack=stack, module=module,
                     sig=sig(x, (768, 768 * (1 + offset % 4)), arguments=json.dumps([None, offset % 3])))  # fmt: skip
    loss = t.stack((f"{PROJECT}/train.py", 31, "main"), (f"{TORCH}/nn/functional.py", 3400, "cross_entropy"))
    t.op("aten::cross_entropy_loss", 6, True, stack=loss, sig=sig((2048, 50257), (2048,)))
    backward = t.stack((f"{PROJECT}/train.py", 32, "main"), (f"{TORCH}/autograd/graph.py", 850, "_engine_run_backward"))
    for name, number in reversed(t.made):
        node = name.removeprefix("aten::").split(".")[0].title().replace("_", "") + "Backward0"
        t.begin(f"autograd::engine::evaluate_function: {node}", spool.AUTOGRAD, stack=backward, seq=number, aux=1)
        t.begin(node, spool.AUTOGRAD, seq=number, aux=1)
        for i in range(4):
            t.op(("aten::mm", "aten::t", "aten::sum.dim_IntList", "aten::mul.Tensor")[i], i % 3,
                 sig=sig(x, (768, 768), arguments=json.dumps([None, i])))  # fmt: skip
        t.end()
        if number % 3 == 0:
            t.begin("torch::autograd::AccumulateGrad", spool.AUTOGRAD, aux=1)
            t.op("aten::detach", 1, sig=sig((768, 768)))
            t.end()
        t.end()
    wrapper = ((f"{PROJECT}/train.py", 33, "main"),
               (f"{TORCH}/optim/optimizer.py", 500, "Optimizer.profile_hook_step.<locals>.wrapper"))  # fmt: skip
    t.begin("Optimizer.step#AdamW.step", spool.RANGE, stack=t.stack(*wrapper))
    for i in range(20):
        stack = t.stack(*wrapper, (f"{TORCH}/optim/adamw.py", 400 + i, "_multi_tensor_adamw"))
        t.op(("aten::_foreach_mul_.Scalar", "aten::_foreach_addcmul_.Scalar", "aten::_foreach_sqrt")[i % 3], 30,
             stack=stack, sig=sig(*[(768, 768)] * 6))  # fmt: skip
    t.end()
    return t


def make(directory: Path, events: int, seed: int = 0) -> int:
    """Write a recording of at least ``events`` events; returns how many."""
    spool.write_session(directory, {
        "start_unix_ns": 1_700_000_000_000_000_000, "start_monotonic_ns": 1_000_000_000, "cwd": PROJECT,
        "settings": {"stacks": True}, "recorder": "synthetic",
    })  # fmt: skip
    writer = spool.SpoolWriter(directory, start_ns=1_000_000_000)
    template = gpt_step(writer)
    writer.thread(os_thread=1, logical=1, name="main thread")
    writer.close()
    count = len(template.records)
    edges = np.array(template.edges)
    base = np.zeros(count, spool.RECORD)
    for name in template.records[0]:
        base[name] = [r[name] for r in template.records]
    rng = np.random.default_rng(seed)
    typical = rng.lognormal(7.3, 0.8, len(edges))  # about 1.5 µs between two edges
    parent = base["parent"].astype(np.int64)
    inner = np.flatnonzero(parent != spool.NO_RECORD)
    steps = -(-events // count)
    time_ns = 1_000_500_000
    with (writer.directory / "t0.events").open("r+b") as file:
        file.seek(spool.HEADER.size)
        for step in range(steps):
            times = time_ns + np.cumsum(typical * rng.lognormal(0, 0.25, len(edges))).astype(np.int64)
            records = base.copy()
            records["start"][edges[edges >= 0]] = times[edges >= 0]
            records["end"][~edges[edges < 0]] = times[edges < 0]
            duration = (records["end"] - records["start"]).astype(np.int64)
            children = np.zeros(count, np.int64)
            np.add.at(children, parent[inner], duration[inner])
            records["self"] = duration - children
            for column in ("parent", "node"):
                there = records[column] != spool.NO_RECORD
                records[column][there] += step * count
            records["seq"][records["seq"] >= 0] += step * template.number
            file.write(records.tobytes())
            time_ns = int(times[-1]) + 50_000
    return steps * count


CHILD = """
import resource, sys, time
began = time.perf_counter()
import numpy, pyarrow
from neuron_explorer.trace.convert import convert
imported = time.perf_counter()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from pathlib import Path
result = convert(Path(sys.argv[1]), Path(sys.argv[2]))
ended = time.perf_counter()
print(result.events, imported - began, ended - began, time.process_time(),
      (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, "pandas" in sys.modules)
"""


def measure(events: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory, output = Path(scratch, "t.parquet.spool"), Path(scratch, "t.parquet")
        make(directory, events)
        environment = dict(os.environ, PYTHONPATH=str(Path(__file__).resolve().parents[1]))
        # As installed: with compiled bytecode.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = scratch
        subprocess.run([sys.executable, "-c", "import neuron_explorer.trace.convert"], env=environment, check=True)
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", CHILD, directory, output], env=environment, check=True,
                              capture_output=True, text=True)  # fmt: skip
        whole = time.perf_counter() - began
        count, imports, total, cpu, grown, pandas = done.stdout.split()
        size = output.stat().st_size
        print(
            f"{int(count):>12,} events: {float(total):6.2f} s with imports ({float(imports):.2f} s of them imports; "
            f"{float(cpu):.2f} s of processor time; {whole:.2f} s with the interpreter's start), "
            f"{size / int(count):.2f} bytes an event, {int(grown) / 1e6:.0f} MB grown, pandas imported: {pandas}"
        )
        if int(count) <= 2_000_000:
            print_columns(output, int(count))


def print_columns(output: Path, count: int) -> None:
    import pyarrow.parquet as pq

    footer = pq.read_metadata(output)
    sizes: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        for i in range(footer.num_columns):
            column = footer.row_group(group).column(i)
            sizes[column.path_in_schema] = sizes.get(column.path_in_schema, 0) + column.total_compressed_size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:9]
    print("             bytes an event: " + ", ".join(f"{n} {s / count:.2f}" for n, s in largest))


if __name__ == "__main__":
    for argument in sys.argv[1:] or ("100000", "1000000"):
        measure(int(argument))
