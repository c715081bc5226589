"""A run whose memory can be added up on paper: ten steps, a leak, two devices; or the same with a hostile name."""

from __future__ import annotations

import json
from pathlib import Path

import synthetic

STEP = 1_000_000


def memory(name, at, number, amount, device="cpu", **columns):
    return synthetic.event(
        name, at, 0, kind="memory", correlation=number, detail=json.dumps({"bytes": amount}), device=device,
        **{"phase": "other"} | columns,
    )  # fmt: skip


def write(path: Path, name: str = "model.py", function: str = "forward") -> Path:
    """Each step: 4 MB of activations and a leak of 1 kB; the parameters (8 MB) are there from the start."""
    here = {"file": name, "function": function}
    events, number = [memory("found", 10, 1, 8_000_000), memory("parameter", 10, 1, 8_000_000)], 10
    for step in range(10):
        at = step * STEP
        forward = {"line": 7, "phase": "forward", "module": "layers.0"}
        events.append(memory("allocate", at + 100, number, 4_000_000, **forward, **here))
        events.append(memory("allocate", at + 200, number + 1, 1_000, line=9, **here))
        events.append(memory("allocate", at + 300, number + 2, 500, line=3, device="neuron:0", **here))
        events.append(memory("release", at + 500_000, number, -4_000_000, line=8, phase="backward", **here))
        number += 3
    events.sort(key=lambda e: e.start)
    steps = [(n * STEP, STEP, "steady") for n in range(10)]
    capabilities = {"memory": {"observed": True, "reason": ""}, "steps": {"observed": True, "reason": ""}}
    meta = synthetic.metadata(duration_ns=10 * STEP, capabilities=capabilities)
    text = "".join(f"line {n}\n" for n in range(1, 12))
    return synthetic.write(path, synthetic.rows_of(events, steps, {name: text}), meta)
