"""A program with everything a recorder could disturb; prints what happened as JSON.

    python observed_program.py off|native|twin BACKEND TRACE

Not a test: test_observer_effect.py runs it once per recorder and compares.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import sys
import warnings

import torch
from torch import nn
from torch._dynamo.utils import counters

import neuron_explorer

recorder, backend_name, path = sys.argv[1:]
calls = {"compiled": 0, "graphs": 0}


def counting_backend(graph, inputs):
    calls["graphs"] += 1
    if backend_name == "aot_eager":
        from torch._dynamo.backends.debugging import aot_eager

        run = aot_eager(graph, inputs)
    else:
        run = graph.forward

    def compiled(*args):
        calls["compiled"] += 1
        return run(*args)

    return compiled


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        with neuron_explorer.annotate("block"):
            x = self.drop(self.inner(x)).relu()
        torch._dynamo.graph_break()
        # Python runs here under the compiler's frame hook: nothing of a recorder may be compiled.
        return x + helper(x)


def helper(x):
    gc.collect(0)
    return x.sin()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(1)])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@torch.compile(backend=counting_backend)
def recompiles(x, n):
    return x * n + x.shape[0]


def main():
    torch.manual_seed(7)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    compiled = torch.compile(model, backend=counting_backend)
    losses = []
    recording = (
        contextlib.nullcontext()
        if recorder == "off"
        else neuron_explorer.profile(path, recorder=recorder, overwrite=True)
    )
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(2):  # the second recording meets compiled code
            with recording as prof:
                for step in range(2):
                    x = torch.randn(4 + step % 2, 8)
                    loss = compiled(x).square().mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    losses.append(loss.item().hex())
                    recompiles(x.detach(), 2 + step)
                    if prof is not None:
                        prof.step()
    state = hashlib.sha256()
    for p in model.parameters():
        state.update(p.detach().numpy().tobytes())
    state.update(torch.get_rng_state().numpy().tobytes())
    print(
        json.dumps(
            {
                "losses": losses,
                "state": state.hexdigest(),
                "calls": calls,
                "frames": dict(counters["frames"]),
                "graph_breaks": sum(counters["graph_break"].values()),
                "unique_graphs": counters["stats"]["unique_graphs"],
                "recompiles": len(counters["recompiles"]) if "recompiles" in counters else 0,
                "warnings": sorted(str(w.message) for w in shown if "neuron" not in str(w.message)),
            }
        )
    )


main()
