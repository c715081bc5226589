"""A small trace with Python stacks: a module, a function that calls itself, a library between them, a backward."""

from __future__ import annotations

from pathlib import Path

import synthetic

FRAMES = [
    (1, -1, "train.py", 2, "main"),
    (2, 1, "torch/module.py", 7, "Module.__call__", False),
    (3, 2, "model.py", 2, "Block.forward"),
    (4, 3, "model.py", 3, "Block.forward"),
    (5, -1, "train.py", 3, "main"),
]
SOURCES = {
    "train.py": "def main():\n    loss = model(x)\n    optimizer.step()\n",
    "model.py": "class Block:\n    def forward(self, x): return self.inner(x @ w)\n    inner = forward\n",
}
WHOLE_NS = 100 * 1000 + 40 * 500 + 60 * 300 + 2000 * 3


def write(path: Path, evil: str = "") -> Path:
    """The trace. ``evil``: put into every name that a page shows."""
    file = {3: ("model.py", 2), 4: ("model.py", 3), 5: ("train.py", 3)}
    frames = [(n, p, f"{evil}{f}", line, f"{evil}{function}", *user) for n, p, f, line, function, *user in FRAMES]
    events, at = [], 0

    def op(name, count, ns, stack, **more):
        nonlocal at
        for _ in range(count):
            where = {"file": f"{evil}{file[stack][0]}", "line": file[stack][1], "function": f"{evil}f",
                     "attribution": "stack", "stack": stack}  # fmt: skip
            events.append(synthetic.event(f"{evil}{name}", at, ns, **where, **more))
            at += ns + 10

    op("aten::mm", 100, 1000, 3, phase="forward")
    op("aten::gelu", 40, 500, 4, phase="forward")
    op("MmBackward0", 60, 300, 3, phase="backward", kind="autograd")
    op("aten::add_", 2000, 3, 5, phase="optimizer")
    meta = synthetic.metadata(duration_ns=at)
    sources = {f"{evil}{name}": text for name, text in SOURCES.items()}
    return synthetic.write(path, synthetic.rows_of(events, [], sources, frames), meta)
