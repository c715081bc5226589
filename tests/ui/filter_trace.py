"""A trace with something to choose for every filter."""

from __future__ import annotations

import json
from pathlib import Path

import synthetic

STEP = 10_000
SECOND = 777
RANK_1 = {"rank": 1, "process": SECOND, "lane": 20}
KINDS = ("warmup", "steady", "compile", "steady")


def write(path: Path) -> Path:
    """Two ranks, four steps, operators of two phases on two devices, a worker, a compilation in step 2."""
    lanes = [
        synthetic.lane(0, "thread", "main thread"),
        synthetic.lane(1, "steps", "steps"),
        {**synthetic.lane(20, "thread", "main thread", process=SECOND), "rank": 1},
        {**synthetic.lane(21, "steps", "steps", process=SECOND), "rank": 1},
        synthetic.lane(30, "thread", "main thread", process=99, process_name="forked"),
        synthetic.lane(40, "compile", "compile"),
    ]
    events = []
    for number in range(4):
        at = number * STEP
        for other, more in ((1, {}), (2, RANK_1)):
            here = {"file": "model.py", "line": 1, "function": "f", "attribution": "stack", **more}
            events += [
                synthetic.event("aten::mm", at, 1000 * other, phase="forward", device="neuron:0", **here),
                synthetic.event("aten::cpu", at + 3000, 500, phase="forward", device="cpu", **here),
                synthetic.event("aten::t", at + 4000, 700, phase="backward", device="neuron:0", **here),
            ]
        events.append(
            synthetic.event(f"step {number}", at, STEP, kind="step", step=number, period=KINDS[number],
                            **{**RANK_1, "lane": 21})
        )  # fmt: skip
    events.append(synthetic.event("aten::stack", 100, 50, phase="other", lane=30, process=99))
    made = {"backend": "inductor", "outcome": "ok", "nth": 1, "limit": 8, "trigger": "forward", "graph_ops": 3}
    events.append(
        synthetic.event("f", 2 * STEP + 6000, 1000, kind="compile", lane=40, compile_id="0/0", file="model.py", line=1,
                        function="f", detail=json.dumps(made))
    )  # fmt: skip
    seen = {"compile": {"observed": True, "reason": ""}}
    meta = synthetic.metadata(
        duration_ns=4 * STEP, lanes=lanes, device={"type": "neuron", "name": "trn2", "emulated": True},
        capabilities=synthetic.metadata()["capabilities"] | seen,
    )  # fmt: skip
    steps = [(n * STEP, STEP, KINDS[n]) for n in range(4)]
    rows = synthetic.rows_of(events, steps, {"model.py": "y = a @ b\n"})
    return synthetic.write(path, rows, meta)
