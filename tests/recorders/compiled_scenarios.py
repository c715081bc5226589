"""Small programs that compile, each recorded alone; prints what was recorded of each as JSON.

One process, since importing the compiler takes longer than all of them together.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import sys
import tempfile
import threading
import traceback
import warnings
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path

import torch
import torch._dynamo
from torch._dynamo import config, convert_frame

from neuron_explorer.trace import environment
from neuron_explorer.trace.compile_spool_reader import read
from neuron_explorer.trace.notices import RecompileWarning
from neuron_explorer.trace.recorders import torch_compiler_private
from neuron_explorer.trace.recorders.compiler import Compilations

SESSION = environment.facts(None)
HERE = os.path.abspath(__file__)
scenarios = {}


def scenario(function):
    scenarios[function.__name__] = function
    return function


@contextmanager
def recording(**options):
    """Yields a dictionary that holds what was recorded, once it is over."""
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as directory:
        recorder = Compilations(Path(directory), SESSION, **options)
        found = {"recorder": recorder, "directory": directory}
        recorder.start()
        try:
            yield found
        finally:
            recorder.stop()
            del found["recorder"], found["directory"]
            found["errors"] = recorder._errors
            found["missing"] = recorder.missing
            found["processes"] = [dataclasses.asdict(process) for process in read(Path(directory))]


def line_of(marker):
    """The line of this file that ends with ``# <marker>``."""
    lines = Path(HERE).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(f"# {marker}"))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()  # block


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@scenario
def training():
    model = Model()
    with recording() as found:
        torch.compile(model, backend="aot_eager")(torch.ones(2, 4)).sum().backward()  # trained
    found["caller"], found["block"] = line_of("trained"), line_of("block")
    return found


def scaled(x, n):
    return (x * n).relu()


@scenario
def reasons():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)

    def call(*arguments):
        return compiled(*arguments)  # scaled call

    with recording() as found:
        call(torch.ones(3), 2)
        call(torch.ones(5), 2)
        call(torch.ones(3, dtype=torch.float64), 2)
        call(torch.ones(3), 4)
        with torch.no_grad():
            call(torch.ones(3), 2)
        call(torch.ones(3, requires_grad=True), 2)
    found["caller"] = line_of("scaled call")
    return found


class Switch:
    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        raise RuntimeError("asked for an attribute")

    def __repr__(self):
        raise RuntimeError("asked for a text")


@scenario
def attribute():
    switch = Switch(1)

    def read_switch(x):
        return x + switch.value

    compiled = torch.compile(read_switch, backend="eager")
    with recording() as found:
        compiled(torch.ones(2))
        switch.value = 7.5
        compiled(torch.ones(2))
    return found


def broken(x):
    x = x + 1
    torch._dynamo.graph_break()  # break
    return x * 2


@scenario
def breaks():
    with recording() as found:
        torch.compile(broken, backend="eager")(torch.ones(2))
        torch._dynamo.reset()
        torch.compile(broken, backend="eager")(torch.ones(2))
    found["line"] = line_of("break")
    return found


def in_a_loop(x):
    for _ in range(3):
        x = x + 1
        print(end="")
    return x


@scenario
def unbreakable():
    with recording() as found:
        found["result"] = torch.compile(in_a_loop, backend="eager")(torch.ones(2)).tolist()
    return found


@scenario
def limit():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with recording() as found, config.patch(recompile_limit=2):
        for n in range(4):
            compiled(torch.ones(3), n)
    return found


@scenario
def accumulated_limit():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with recording() as found, config.patch(accumulated_recompile_limit=2):
        for n in range(4):
            compiled(torch.ones(3), n)
    return found


def failing_backend(graph, inputs):
    raise ValueError("of the backend")


@scenario
def failures():
    errors = []
    with recording() as found:
        for options in ({"backend": "eager", "fullgraph": True}, {"backend": failing_backend}):
            function = in_a_loop if "fullgraph" in options else scaled
            try:
                torch.compile(function, **options)(torch.ones(2), *([] if "fullgraph" in options else [2]))
            except Exception as error:
                files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
                errors.append([type(error).__name__, any("neuron_explorer" in file for file in files)])
    found["raised"] = errors
    return found


@scenario
def error_on_recompile():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with recording() as found, config.patch(error_on_recompile=True):
        compiled(torch.ones(2), 1)
        try:
            compiled(torch.ones(2), 2)
        except Exception as error:
            files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
            found["raised"] = [type(error).__name__, any("neuron_explorer" in file for file in files)]
    return found


@scenario
def two_threads():
    """A backward pass is compiled in one thread while a forward pass is in the other."""
    from torch._dynamo.backends.common import aot_autograd

    backward_began, forward_began = threading.Event(), threading.Event()

    def plain(graph, _):
        return graph.forward

    def backward(graph, _):
        backward_began.set()
        assert forward_began.wait(60)
        return graph.forward

    def forward(graph, _):
        forward_began.set()
        return graph.forward

    def first(x):
        return x.sin()

    def second(x):
        return x.cos()

    def train():
        loss = torch.compile(first, backend=aot_autograd(fw_compiler=plain, bw_compiler=backward))
        loss(torch.ones(3, requires_grad=True)).sum().backward()

    def infer():
        assert backward_began.wait(60)
        torch.compile(second, backend=forward)(torch.ones(3))

    with recording(tracing_ops=lambda: 0) as found:
        threads = [threading.Thread(target=train), threading.Thread(target=infer)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    return found


@scenario
def compiled_autograd():
    weight = torch.ones(4, 4, requires_grad=True)

    def compiler(graph):
        return torch.compile(graph, backend="eager")

    with recording() as found, torch._dynamo.compiled_autograd._enable(compiler):
        (torch.ones(2, 4) @ weight).sum().backward()
    return found


@scenario
def flagged():
    """Whether this thread compiles is told, and taken back whatever goes wrong."""
    flags, told = {}, []
    for name in ("well", "fault", "failure", "backward", "capture"):
        with recording(compiling=told.append) as found:
            if name == "fault":
                found["recorder"]._watch.frame_ends = fault
            with suppress(torch._dynamo.exc.BackendCompilerFailed):
                run_flagged(name)
        flags[name] = list(told)
        told.clear()
    found["flags"], found["errors"] = flags, {}
    return found


def run_flagged(name):
    x = torch.ones(2, requires_grad=name == "backward")
    if name == "capture":
        capture = torch._dynamo.utils.get_chromium_event_logger()
        capture.log_event_start("compiled_autograd", 0, {}, True)  # and its end never comes
        torch.compile(scaled, backend="eager")(x, 2)
        capture.reset()
        return
    result = torch.compile(scaled, backend=failing_backend if name == "failure" else "aot_eager")(x, 2)
    if name == "backward":
        result.sum().backward()


@scenario
def removal():
    before = {site.role: vars(site.owner)[site.name] for site in torch_compiler_private.sites()}
    with recording() as found:
        during = {site.role: vars(site.owner)[site.name] for site in torch_compiler_private.sites()}
    after = {site.role: vars(site.owner)[site.name] for site in torch_compiler_private.sites()}
    found["replaced"] = sorted(role for role in before if before[role] is not during[role])
    found["kept"] = sorted(role for role in before if before[role] is not after[role])
    return found


@scenario
def wrapped_in_between():
    """The program replaces what the recorder has replaced: it keeps its own, and ours lets everything pass."""
    calls = []
    before = convert_frame._compile
    with recording() as found:
        ours = convert_frame._compile

        def mine(*args, **kwargs):
            calls.append(1)
            return ours(*args, **kwargs)

        convert_frame._compile = mine
        torch.compile(scaled, backend="eager")(torch.ones(2), 2)
    try:
        found["stays"] = convert_frame._compile is mine
        torch._dynamo.reset()
        found["result"] = torch.compile(scaled, backend="eager")(torch.ones(2), 3).tolist()
        found["calls"] = len(calls)
    finally:
        convert_frame._compile = before
    return found


@scenario
def paused():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    with recording() as found:
        compiled(torch.ones(2), 1)
        found["recorder"].pause()
        compiled(torch.ones(2), 2)
        found["recorder"].resume()
        compiled(torch.ones(2), 3)
    return found


@scenario
def own_fault():
    with recording() as found:
        for name in ("frame_ends", "on_graph", "on_event"):
            setattr(found["recorder"]._watch, name, fault)
        found["result"] = torch.compile(scaled, backend="eager")(torch.ones(2), 2).tolist()
    return found


def fault(*_):
    raise LookupError("a fault of the recorder")


@scenario
def warned():
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    said, errors = [], io.StringIO()
    with recording(warn=True) as found, config.patch(recompile_limit=3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            compiled(torch.ones(2), 1)
            compiled(torch.ones(2), 2)  # warned
        said = [[w.category is RecompileWarning, w.filename == HERE, w.lineno, str(w.message)] for w in caught]
        with warnings.catch_warnings(), redirect_stderr(errors):
            warnings.simplefilter("error")
            compiled(torch.ones(2), 3)
            found["result"] = compiled(torch.ones(2), 4).tolist()
    found["said"], found["stderr"], found["line"] = said, errors.getvalue(), line_of("warned")
    return found


@scenario
def full():
    log = torch_compiler_private.structured_log()
    before = list(log.handlers)
    with recording(full=True) as found:
        torch.compile(Model(), backend="aot_eager")(torch.ones(2, 4)).sum().backward()
        found["listening"] = len(log.handlers) > len(before)
    found["left"] = [type(h).__name__ for h in log.handlers if h not in before]
    return found


@scenario
def untouched():
    """What torch keeps of its compilations is the program's."""
    from torch._dynamo import utils

    kept = utils._compilation_metrics
    with recording() as found:
        torch.compile(scaled, backend="eager")(torch.ones(2), 2)
        found["same"] = utils._compilation_metrics is kept and kept.maxlen == 64
    return found


@scenario
def forked():
    with recording() as found:
        torch.compile(scaled, backend="eager")(torch.ones(2), 2)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                torch.compile(in_a_loop, backend="eager")(torch.ones(2))
                status = 0
            finally:
                os._exit(status)
        found["status"] = os.waitpid(child, 0)[1]
        found["child"] = child
    return found


@scenario
def absent():
    """A torch that lacks some of the names."""
    known = torch_compiler_private._SITES
    torch_compiler_private._SITES = tuple(
        (role, module, "no_such_name" if role in ("limit", "instant") else path, loss)
        for role, module, path, loss in known
    )
    compiled = torch.compile(scaled, backend="eager", dynamic=False)
    try:
        with recording() as found:
            compiled(torch.ones(2), 1)
            compiled(torch.ones(2), 2)
    finally:
        torch_compiler_private._SITES = known
    return found


@scenario
def nothing_kept_alive():
    import gc
    import weakref

    class Holder(torch.nn.Module):
        def forward(self, x, big):
            return x + 1 if big is None else x + big

    tensor = torch.ones(2)
    model = Holder()
    seen = [weakref.ref(tensor), weakref.ref(model)]
    with recording() as found:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(2), tensor)
        compiled(torch.ones(2), None)
        del tensor, model, compiled
        torch._dynamo.reset()
        gc.collect()
        found["alive"] = [ref() is not None for ref in seen]
    return found


if __name__ == "__main__":
    torch._dynamo.utils.counters.clear()
    print(json.dumps({name: scenarios[name]() for name in sys.argv[1:] or scenarios}))
