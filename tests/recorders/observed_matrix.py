"""Compiles small functions in many ways and prints, as JSON, what the compiler did and what came out.

    python observed_matrix.py off|native|twin BACKEND [CASES]

Not a test: test_observer_matrix.py runs it with and without a recorder and compares. CASES are
numbers of the cases to run, with commas between.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import sys
import warnings

import torch
import torch._dynamo
from torch._dynamo.utils import counters

import neuron_explorer

recorder, backend_name, *wanted = sys.argv[1:]
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("inductor")  # read when it is used
device = "neuron" if backend_name == "neuron" else "cpu"
calls = {"graphs": 0, "compiled": 0}


def counted(function, what):
    """The same function, with its calls counted; boxed where it is."""

    def run(*args):
        calls[what] += 1
        return function(*args)

    if hasattr(function, "_boxed_call"):
        run._boxed_call = function._boxed_call
    return run


def backend(graph, inputs):
    calls["graphs"] += 1
    return counted(torch._dynamo.lookup_backend(backend_name)(graph, inputs), "compiled")


def make(fullgraph):
    """A new function with code of its own, that breaks its graph unless it must not."""
    space = {"torch": torch}
    broken = "" if fullgraph else "    torch._dynamo.graph_break()\n"
    exec(
        f"def f(x, weight, n):\n    x = (x @ weight).sin()\n{broken}    return x * n + x.cos()",
        space,
    )
    return space["f"]


def entries(function):
    """Compile ids of the cache entries of a function, and of what goes on after its break."""
    seen = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__)
    return [str(entry.compile_id) for entry in seen]


def results_of(function, compiled, training, size, n):
    x = torch.arange(size * 4, dtype=torch.float32).reshape(size, 4).to(device)
    weight = torch.full((4, 4), 0.25).to(device).requires_grad_(training)
    try:
        with contextlib.nullcontext() if training else torch.no_grad():
            result = compiled(x, weight, n)
            if training:
                result.sum().backward()
    except Exception as error:
        return type(error).__name__
    digest = hashlib.sha256(result.detach().cpu().numpy().tobytes())
    if training:
        digest.update(weight.grad.cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def observe(dynamic, training, fullgraph, number):
    """One case: a function that is first called inside the recording, and one first called outside."""
    torch._dynamo.reset()
    counters.clear()
    calls.update(dict.fromkeys(calls, 0))
    options = {"backend": backend, "dynamic": dynamic, "fullgraph": fullgraph}
    inside, outside = make(fullgraph), make(fullgraph)
    compiled_inside, compiled_outside = torch.compile(inside, **options), torch.compile(outside, **options)
    results = [results_of(outside, compiled_outside, training, 3, 2.0)]
    recording = (
        contextlib.nullcontext()
        if recorder == "off"
        else neuron_explorer.profile(f"case{number}.parquet", recorder=recorder, overwrite=True)
    )
    with recording:
        for size, n in ((3, 2.0), (3, 2.0), (5, 2.0)):
            results.append(results_of(inside, compiled_inside, training, size, n))
        during = dict(calls)
        results.append(results_of(outside, compiled_outside, training, 3, 2.0))  # needs nothing new
        nothing_new = calls["graphs"] == during["graphs"]
        results.append(results_of(outside, compiled_outside, training, 5, 2.0))
    for size in (3, 6):
        results.append(results_of(inside, compiled_inside, training, size, 2.0))
        results.append(results_of(outside, compiled_outside, training, size, 2.0))
    return {
        "results": results,
        "nothing_new": nothing_new,
        "calls": dict(calls),
        "entries": [entries(inside), entries(outside)],
        "counters": {
            kind: {str(key): value for key, value in sorted(found.items(), key=str)}
            for kind, found in sorted(counters.items())
            if kind != "recompiles"
        },
        "compilations": [
            [str(m.compile_id), m.is_forward, m.guard_count, m.graph_op_count, len(m.restart_reasons or ())]
            for m in torch._dynamo.utils.get_compilation_metrics()
        ],
        "grad_mode": torch.is_grad_enabled(),
    }


def main():
    if device == "neuron":
        from neuron_explorer.errors import NeuronExplorerError
        from neuron_explorer.neuron import emulator

        try:
            emulator.enable()
        except NeuronExplorerError as error:
            print(json.dumps({"missing": str(error)}))
            return
    found = {}
    cases = list(itertools.product((None, False), (True, False), (False, True)))
    for number in map(int, wanted[0].split(",")) if wanted else range(len(cases)):
        dynamic, training, fullgraph = cases[number]
        torch._dynamo.utils.clear_compilation_metrics()
        name = f"dynamic={dynamic} {'training' if training else 'inference'} {'fullgraph' if fullgraph else 'breaks'}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.redirect_stdout(io.StringIO()):
                found[name] = observe(dynamic, training, fullgraph, number)
    print(json.dumps(found))


main()
