# ruff: noqa: E501 - the operators of a step read best one a line
"""Writes a made-up trace of any size: GPT-like training steps, nested and attributed.

    python benchmarks/synthetic_trace.py out.parquet --events 1000000

The shape is that of a real recording (steps, ranges, forward with modules and lines,
backward nodes linked to their forward ops, optimizer, loader waits, a second process,
garbage collection); the times are invented, so nothing may be concluded from them. Used by
the timeline's benchmarks and browser tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

TRAIN = """\
import torch
import torch.nn.functional as F

from model import GPT


def main(steps: int = 100) -> None:
    torch.manual_seed(0)
    model = GPT(layers=4, width=256, heads=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for tokens, targets in batches():
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
"""
MODEL = """\
import torch
from torch import nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.gate(x))
        return self.down(h * self.up(x))


class Block(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""
MAIN, WORKER, STEPS, GC = 1, 2, 0, 3


def line_of(text: str, source: str) -> int:
    """The first line of ``source`` that holds ``text``."""
    return next(i for i, row in enumerate(source.splitlines(), 1) if text in row)


@dataclass
class Template:
    """The events of one step on the main thread, in pre-order; times are made from ``edges``."""

    rows: list[dict] = field(default_factory=list)
    edges: list[tuple[int, bool, float]] = field(default_factory=list)  # event, is end, ns before it
    frames: dict[tuple[int, str, int, str], int] = field(default_factory=dict)
    phase: str = "forward"
    open: list[int] = field(default_factory=list)

    def frame(self, parent: int, file: str, line: int, function: str) -> int:
        key = (parent, file, line, function)
        return self.frames.setdefault(key, len(self.frames) + 1)

    def begin(self, name: str, before: float, **columns) -> int:
        index = len(self.rows)
        parent = self.open[-1] if self.open else -1
        self.rows.append({"name": name, "kind": "op", "parent": parent, "depth": len(self.open),
                          "phase": self.phase, "outermost": True, **columns})  # fmt: skip
        self.edges.append((index, False, before))
        self.open.append(index)
        return index

    def end(self, after: float) -> None:
        self.edges.append((self.open.pop(), True, after))

    def op(self, name: str, where: dict, self_ns: float, *inner, **columns) -> int:
        """An operator with nested operators: each of ``inner`` is (name, ns) or (name, ns, *inner)."""
        index = self.begin(name, 900, **{**where, **columns})
        for child in inner:
            self.op(child[0], {**where, "attribution": "inherited", "outermost": False}, child[1], *child[2:])
        self.end(self_ns)
        return index


def step_template(layers: int, stack_depth: int = 8) -> Template:
    """One training step of a GPT of ``layers`` blocks."""
    t = Template()
    base = 0
    for i in range(stack_depth):
        base = t.frame(
            base,
            "train.py",
            line_of("main()", TRAIN) if i == 0 else 7 + i % 3,
            f"launch_{i}" if i else "<module>",
        )

    def at(file: str, text: str, function: str, module: str | None = None, parent: int = base) -> dict:
        line = line_of(text, TRAIN if file == "train.py" else MODEL)
        return {"file": file, "line": line, "function": function, "module": module,
                "stack": t.frame(parent, file, line, function), "attribution": "stack"}  # fmt: skip

    forward: list[tuple[str, int, dict]] = []

    def linear(where: dict, ns: float, shape: str, name: str = "AddmmBackward0") -> None:
        i = t.op("aten::linear", where, 700, ("aten::t", 500, ("aten::transpose.int", 600, ("aten::as_strided", 350))),
                 ("aten::addmm", ns, ("aten::expand", 400, ("aten::as_strided", 300)), ("aten::copy_", 800)),
                 shapes=shape, dtypes='["float32", "float32", "float32"]')  # fmt: skip
        forward.append((name, i, where))

    def simple(name: str, where: dict, ns: float, back: str, shape: str) -> None:
        i = t.op(name, where, ns, ("aten::empty.memory_format", 400), shapes=shape, dtypes='["float32", "float32"]')
        forward.append((back, i, where))

    wait = at("train.py", "for tokens, targets", "main")
    t.phase = "other"
    t.begin("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1500, kind="data_wait", **wait)
    t.op("aten::stack", wait, 2500, ("aten::cat", 5200), shapes="[[[256], [256]]]", dtypes='[["int64"]]')
    t.end(30_000)

    t.phase = "forward"
    call = at("train.py", "logits = model(tokens)", "main")
    x = "[[8, 256, 256], [8, 256, 256]]"
    gpt = call["stack"]
    t.op("aten::embedding", at("model.py", "self.embed(tokens)", "GPT.forward", "embed", gpt), 6000,
         ("aten::index_select", 21_000), shapes="[[8000, 256], [8, 256]]", dtypes='["float32", "int64"]')  # fmt: skip
    for layer in range(layers):
        m = f"blocks.{layer}"
        block = t.frame(gpt, "model.py", line_of("x = block(x)", MODEL), "GPT.forward")
        attn = t.frame(block, "model.py", line_of("self.attn(self.norm1(x))", MODEL), "Block.forward")
        mlp = t.frame(block, "model.py", line_of("self.mlp(self.norm2(x))", MODEL), "Block.forward")
        norm = at("model.py", "self.attn(self.norm1(x))", "Block.forward", f"{m}.norm1", block)
        simple("aten::layer_norm", norm, 14_000, "NativeLayerNormBackward0", x)
        linear(
            at("model.py", "q, k, v = self.qkv", "Attention.forward", f"{m}.attn.qkv", attn),
            92_000,
            "[[8, 256, 256], [768, 256], [768]]",
        )
        split = at("model.py", "q, k, v = self.qkv", "Attention.forward", f"{m}.attn", attn)
        t.op(
            "aten::chunk",
            split,
            900,
            (
                "aten::split.Tensor",
                700,
                ("aten::narrow", 400, ("aten::slice.Tensor", 500, ("aten::as_strided", 300))),
            ),
            shapes="[[8, 256, 768]]",
            dtypes='["float32"]',
        )
        sdpa = at("model.py", "scaled_dot_product", "Attention.forward", f"{m}.attn", attn)
        i = t.op("aten::scaled_dot_product_attention", sdpa, 1200,
                 ("aten::_scaled_dot_product_flash_attention_for_cpu", 140_000, ("aten::transpose.int", 500), ("aten::empty_like", 700)),
                 shapes="[[8, 4, 256, 64], [8, 4, 256, 64], [8, 4, 256, 64]]", dtypes='["float32", "float32", "float32"]')  # fmt: skip
        forward.append(("ScaledDotProductFlashAttentionForCpuBackward0", i, sdpa))
        linear(
            at("model.py", "return self.out(", "Attention.forward", f"{m}.attn.out", attn),
            34_000,
            "[[8, 256, 256], [256, 256], [256]]",
        )
        simple(
            "aten::add.Tensor",
            at("model.py", "self.attn(self.norm1(x))", "Block.forward", m, block),
            9_000,
            "AddBackward0",
            x,
        )
        norm = at("model.py", "self.mlp(self.norm2(x))", "Block.forward", f"{m}.norm2", block)
        simple("aten::layer_norm", norm, 14_000, "NativeLayerNormBackward0", x)
        linear(
            at("model.py", "F.silu(self.gate(x))", "MLP.forward", f"{m}.mlp.gate", mlp),
            110_000,
            "[[8, 256, 256], [1024, 256], [1024]]",
        )
        simple(
            "aten::silu",
            at("model.py", "F.silu(self.gate(x))", "MLP.forward", f"{m}.mlp", mlp),
            31_000,
            "SiluBackward0",
            x,
        )
        linear(
            at("model.py", "self.down(h * self.up(x))", "MLP.forward", f"{m}.mlp.up", mlp),
            108_000,
            "[[8, 256, 256], [1024, 256], [1024]]",
        )
        simple(
            "aten::mul.Tensor",
            at("model.py", "self.down(h * self.up(x))", "MLP.forward", f"{m}.mlp", mlp),
            22_000,
            "MulBackward0",
            x,
        )
        linear(
            at("model.py", "self.down(h * self.up(x))", "MLP.forward", f"{m}.mlp.down", mlp),
            118_000,
            "[[8, 256, 1024], [256, 1024], [256]]",
        )
        simple(
            "aten::add.Tensor",
            at("model.py", "self.mlp(self.norm2(x))", "Block.forward", m, block),
            9_000,
            "AddBackward0",
            x,
        )
    linear(
        at("model.py", "self.head(self.norm(x))", "GPT.forward", "head", gpt),
        610_000,
        "[[8, 256, 256], [8000, 256], [8000]]",
    )
    loss = at("train.py", "F.cross_entropy", "main")
    i = t.op("aten::cross_entropy_loss", loss, 2_000, ("aten::log_softmax.int", 1_000, ("aten::_log_softmax", 210_000)),
             ("aten::nll_loss_nd", 900, ("aten::nll_loss", 700, ("aten::nll_loss_forward", 9_000))),
             shapes="[[2048, 8000], [2048]]", dtypes='["float32", "int64"]')  # fmt: skip
    forward.append(("NllLossBackward0", i, loss))

    t.phase = "backward"
    t.op(
        "aten::ones_like",
        at("train.py", "loss.backward()", "main"),
        1500,
        ("aten::fill_.Scalar", 900),
        shapes="[[]]",
        dtypes='["float32"]',
    )
    for node, i, where in reversed(forward):
        back = {
            **where,
            "attribution": "forward",
            "stack": at("train.py", "loss.backward()", "main")["stack"],
        }
        cost = 1.9 * sum(ns for e, is_end, ns in t.edges if is_end and _inside(t, e, i))
        t.begin(f"autograd::engine::evaluate_function: {node}", 700, kind="autograd", correlation=i, **back)
        t.begin(node, 500, correlation=i, **{**back, "outermost": False})
        inner = {**back, "attribution": "inherited", "outermost": False}
        if node == "AddmmBackward0":
            for _ in range(2):
                t.op("aten::t", inner, 600, ("aten::transpose.int", 500, ("aten::as_strided", 350)))
                t.op(
                    "aten::mm",
                    inner,
                    cost / 2,
                    shapes="[[2048, 256], [256, 1024]]",
                    dtypes='["float32", "float32"]',
                )
            t.op("aten::sum.dim_IntList", inner, 11_000, ("aten::as_strided", 300))
        else:
            t.op(
                "aten::" + node.removesuffix("0")[:1].lower() + node.removesuffix("0")[1:],
                inner,
                cost,
                ("aten::empty_like", 600),
            )
        t.end(800)
        t.end(600)
    t.phase = "optimizer"
    opt = at("train.py", "optimizer.step()", "main")
    t.begin("Optimizer.step#AdamW.step", 4000, kind="range", **opt)
    inner = {**opt, "outermost": False}
    for name, ns in (("aten::_foreach_add_.Scalar", 9_000), ("aten::_foreach_mul_.Scalar", 160_000),
                     ("aten::_foreach_lerp_.Scalar", 240_000), ("aten::_foreach_addcmul_.Scalar", 260_000),
                     ("aten::_foreach_sqrt", 150_000), ("aten::_foreach_addcdiv_.ScalarList", 270_000)):  # fmt: skip
        t.op(name, inner, ns / 3, *[("aten::" + name[16:].split("_.")[0], ns / 60) for _ in range(3 * layers)])
    t.end(5000)
    zero = at("train.py", "optimizer.zero_grad", "main")
    t.begin("Optimizer.zero_grad#AdamW.zero_grad", 2000, kind="range", **zero)
    t.end(9000)
    return t


def _inside(t: Template, event: int, ancestor: int) -> bool:
    while event >= 0:
        if event == ancestor:
            return True
        event = t.rows[event]["parent"]
    return False


def write(
    path: str | Path, events: int, *, layers: int = 4, stack_depth: int = 8, seed: int = 0, gap_ns: int = 0,
    more: Callable[[int, int, int], list[dict]] | None = None, about: dict | None = None,
) -> int:  # fmt: skip
    """Write about ``events`` events (whole steps); returns how many. ``gap_ns``: idle time in the middle.

    ``more``: given a step, its start and its end, further rows. ``about``: what to change in the metadata; its
    ``lanes`` are added.
    """
    from neuron_explorer.trace.write import Coded, TraceWriter

    t = step_template(layers, stack_depth)
    n = len(t.rows)
    steps = max(1, round(events / (n + 14)))
    writer = TraceWriter(path)
    frames = [(number, *key) for key, number in t.frames.items()]
    writer.write_rows({"kind": "frame", "id": [f[0] for f in frames], "parent": [f[1] or -1 for f in frames],
                       "file": [f[2] for f in frames], "line": [f[3] for f in frames], "function": [f[4] for f in frames]})  # fmt: skip
    writer.write_rows({"kind": "source", "file": ["train.py", "model.py"], "text": [TRAIN, MODEL]})

    def coded(values: list) -> tuple[np.ndarray, list]:
        table: dict = {}
        return np.array([-1 if v is None else table.setdefault(v, len(table)) for v in values], np.int32), list(table)

    text = {c: coded([r.get(c) for r in t.rows]) for c in
            ("kind", "name", "file", "function", "module", "phase", "shapes", "dtypes", "attribution")}  # fmt: skip
    number = {
        c: np.array([r.get(c, -1) for r in t.rows], np.int64)
        for c in ("parent", "depth", "line", "stack", "correlation")
    }
    outermost = np.array([r["outermost"] for r in t.rows])
    edge_event = np.array([e[0] for e in t.edges])
    edge_end = np.array([e[1] for e in t.edges])
    edge_ns = np.array([e[2] for e in t.edges])
    rng = np.random.default_rng(seed)
    clock, total = 1_000_000, 0
    step_rows: list[tuple[int, int]] = []
    by_kind: dict[str, int] = {}
    chunk = max(1, 120_000 // n)
    for first in range(0, steps, chunk):
        parts: list[dict] = []
        for step in range(first, min(first + chunk, steps)):
            if gap_ns and step == steps // 2:
                clock += gap_ns
            jitter = rng.lognormal(0, 0.25, len(edge_ns)) * (2.5 if step < 2 else 1.0)
            at = clock + np.cumsum(edge_ns * jitter).astype(np.int64)
            start, end = np.empty(n, np.int64), np.empty(n, np.int64)
            start[edge_event[~edge_end]] = at[~edge_end]
            end[edge_event[edge_end]] = at[edge_end]
            duration = end - start
            child_time = np.bincount(number["parent"] + 1, duration, n + 1)[1:].astype(np.int64)
            shift = step * n
            moved = {c: np.where(number[c] >= 0, number[c] + shift, -1) for c in ("parent", "correlation")}
            main = {"start": start, "duration": duration, "self": duration - child_time, "id": np.arange(n) + shift,
                    "lane": MAIN, "process": 4242, "thread": 0, "step": step, "outermost_on_line": outermost,
                    "depth": number["depth"], "line": number["line"], "stack": number["stack"], **moved,
                    **{c: Coded(codes, values) for c, (codes, values) in text.items()},
                    "period": "warmup" if step < 2 else "steady"}  # fmt: skip
            parts.append(main)
            stop = int(at[-1]) + 20_000
            step_rows.append((clock, stop))
            parts.append(_single("step", f"step {step}", clock, stop - clock, STEPS, step, steps * n + step))
            k = 12
            worker = clock + np.sort(rng.integers(0, stop - clock, 2 * k))
            for j in range(k):
                parts.append(_single("op", ["aten::randint.low", "aten::slice.Tensor", "aten::cat"][j % 3], int(worker[2 * j]),
                                     int(worker[2 * j + 1] - worker[2 * j]), WORKER, step, (steps + step) * n * 2 + j, process=4243))  # fmt: skip
            if step % 3 == 1:
                parts.append(
                    _single(
                        "gc",
                        "gc generation 0",
                        clock + (stop - clock) // 3,
                        450_000,
                        GC,
                        step,
                        steps * n * 9 + step,
                    )
                )
            if more is not None:
                parts += more(step, clock, stop)
            clock = stop
        total += _write_sorted(writer, parts, by_kind)
    lanes = [
        {"lane": STEPS, "kind": "steps", "name": "steps", "process": 4242, "thread": -1},
        {
            "lane": MAIN,
            "kind": "thread",
            "name": "main thread",
            "process": 4242,
            "process_name": "main",
            "thread": 0,
        },
        {
            "lane": WORKER,
            "kind": "thread",
            "name": "main thread",
            "process": 4243,
            "process_name": "DataLoader worker 0",
            "process_start": 1,
            "thread": 0,
        },
        {"lane": GC, "kind": "gc", "name": "garbage collection", "process": 4242, "thread": 0},
    ]
    for lane in lanes:
        for key, value in {
            "rank": 0,
            "process_name": "main",
            "process_start": 0,
            "os_thread": 4242,
            "device": None,
            "stream": -1,
        }.items():
            lane.setdefault(key, value)
    seen = {"observed": True, "reason": ""}
    not_seen = {"observed": False, "reason": "the trace is made up and runs on the CPU"}
    capabilities = dict.fromkeys(("stacks", "shapes", "modules", "backward_lines", "gc", "data_wait", "steps"), seen)
    capabilities |= dict.fromkeys(
        ("sync", "device_time", "memory", "compile", "collectives", "fallback", "context_switches"), not_seen
    )
    about = dict(about or {})
    lanes += about.pop("lanes", [])
    writer.close({
        "start_unix_ns": 1_760_000_000_000_000_000, "duration_ns": clock, "script": "train.py", "recorder": "synthetic",
        "versions": {"python": "3.11.2", "torch": "2.13.0", "neuron_explorer": "0.1.0"},
        "device": {"type": "cpu", "name": "CPU", "emulated": False}, "lanes": lanes, "capabilities": capabilities,
        "steps": {"rule": "prof.step", "rule_text": "by prof.step()", "count": steps, "steady": max(0, steps - 2), "note": ""},
        "counts": {"events": total, "by_kind": by_kind},
    } | about)  # fmt: skip
    return total


def _single(
    kind: str, name: str, start: int, duration: int, lane: int, step: int, id_: int, process: int = 4242
) -> dict:
    return {"kind": kind, "name": name, "start": np.array([start]), "duration": np.array([duration]),
            "self": np.array([duration]), "id": np.array([id_]), "lane": lane, "process": process,
            "step": step, "phase": "other", "attribution": "no_python_frame"}  # fmt: skip


def _write_sorted(writer, parts: list[dict], by_kind: dict[str, int]) -> int:
    """Concatenate the parts, sort them by start, write one row group."""
    from neuron_explorer.trace import schema
    from neuron_explorer.trace.write import Coded

    start = np.concatenate([p["start"] for p in parts])
    order = np.argsort(start, kind="stable")
    lengths = [len(p["start"]) for p in parts]
    columns = {}
    types = {c.name: c.type for c in schema.COLUMNS}
    for column in {c for p in parts for c in p}:
        if types[column] == "text":
            table: dict = {}
            codes = []
            for p, n in zip(parts, lengths, strict=True):
                v = p.get(column)
                if isinstance(v, Coded):
                    lookup = np.array([table.setdefault(x, len(table)) for x in v.values] + [-1], np.int32)
                    codes.append(lookup[v.codes])
                else:
                    codes.append(np.full(n, -1 if v is None else table.setdefault(v, len(table)), np.int32))
            flat = np.concatenate(codes)[order]
            columns[column] = Coded(flat, list(table))
            if column == "kind":
                for value, code in table.items():
                    by_kind[value] = by_kind.get(value, 0) + int((flat == code).sum())
        else:
            default = {"outermost_on_line": True, "depth": 0}.get(column, -1)
            columns[column] = np.concatenate([
                v if isinstance(v := p.get(column, default), np.ndarray) else np.full(n, v)
                for p, n in zip(parts, lengths, strict=True)
            ])[order]  # fmt: skip
    writer.write_rows(columns)
    return len(order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--stack-depth", type=int, default=8)
    parser.add_argument("--gap-hours", type=float, default=0)
    options = parser.parse_args()
    total = write(options.output, options.events, layers=options.layers, stack_depth=options.stack_depth,
                  gap_ns=int(options.gap_hours * 3.6e12))  # fmt: skip
    print(f"{options.output}: {total:,} events, {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
