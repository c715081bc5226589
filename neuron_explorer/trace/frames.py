"""What the calling-context tree says about an event: user frame, optimizer, recomputation.

Everything is computed once per frame, not per event. Index 0 of every array stands for "no
frame"; a frame's parent has a smaller number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .arrays import grouped
from .paths import FileInfo, PathRules
from .text import TextTable

_OPTIMIZER: Final = re.compile(r"(?:^|[/\\])torch[/\\]optim[/\\]optimizer\.py$")
_OPTIMIZERS: Final = re.compile(r"(?:^|[/\\])torch[/\\]optim[/\\][^/\\]+\.py$")
_CHECKPOINT: Final = re.compile(r"(?:^|[/\\])torch[/\\]utils[/\\]checkpoint\.py$")
_MODULE: Final = re.compile(r"(?:^|[/\\])torch[/\\]nn[/\\]modules[/\\]module\.py$")
_GRAPH: Final = re.compile(r"(?:^|[/\\])torch[/\\]autograd[/\\]graph\.py$")
_MODULE_CALLS: Final = ("_wrapped_call_impl", "_call_impl")


@dataclass(frozen=True)
class Frames:
    """Per frame. ``*_of`` arrays hold the nearest such frame at or above, 0 when there is none."""

    parent: np.ndarray
    file: np.ndarray  # code into the file texts
    line: np.ndarray
    function: np.ndarray  # code into the function texts
    first_line: np.ndarray  # of its code object
    location: np.ndarray  # equal for equal (file, line)
    from_graph: np.ndarray  # a line of generated code, shown as the line it was generated from
    user: np.ndarray
    user_of: np.ndarray
    library_of: np.ndarray
    optimizer_of: np.ndarray
    in_optimizer: np.ndarray
    checkpoint_of: np.ndarray
    engine_of: np.ndarray  # the call that runs the autograd engine
    outer_module: np.ndarray  # the outermost Module call above

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True)
class CodeFacts:
    """Per code object: where it is written and what it is."""

    file: np.ndarray
    function: np.ndarray
    first_line: np.ndarray
    user: np.ndarray
    library: np.ndarray
    step_wrapper: np.ndarray
    optimizer_code: np.ndarray  # of an optimizer of torch; not the base class, whose decorators
    # surround a user's own step() just as well
    checkpoint: np.ndarray
    engine: np.ndarray
    module_call: np.ndarray


def code_facts(
    codes: Sequence[tuple[str, str, int]], rules: PathRules, files: TextTable, functions: TextTable
) -> CodeFacts:
    """Classify code objects ``(filename, qualified name, first line)``."""
    infos = [rules.info(filename) for filename, _, _ in codes]

    def those(file: str, pattern: re.Pattern[str], functions: tuple[str, ...] = ("",)) -> np.ndarray:
        # The plain comparison first: it decides for nearly all.
        found = (c[0].endswith(file) and c[1].endswith(functions) and bool(pattern.search(c[0])) for c in codes)
        return np.fromiter(found, bool)

    base = those("optimizer.py", _OPTIMIZER)
    facts = CodeFacts(
        file=files.codes(i.shown for i in infos),
        function=functions.codes(c[1] for c in codes),
        first_line=np.fromiter((c[2] for c in codes), np.int32),
        user=np.fromiter((i.user for i in infos), bool),
        library=np.fromiter((_outside_torch(i) for i in infos), bool),
        step_wrapper=those("optimizer.py", _OPTIMIZER, ("wrapper",)),
        optimizer_code=those(".py", _OPTIMIZERS) & ~base,
        checkpoint=those("checkpoint.py", _CHECKPOINT),
        engine=those("graph.py", _GRAPH, ("_engine_run_backward",)),
        module_call=those("module.py", _MODULE, _MODULE_CALLS),
    )
    facts.user[0] = facts.library[0] = False
    facts.file[0] = facts.function[0] = -1
    return facts


def frames_of(
    parent: np.ndarray, code: np.ndarray, line: np.ndarray, facts: CodeFacts, from_graph: np.ndarray
) -> Frames:
    """Everything the converter asks about frames, from the tables of all processes."""
    user, module_call = facts.user[code], facts.module_call[code]
    file = facts.file[code]
    optimizer_of = nearest(parent, facts.step_wrapper[code])
    _, location = grouped((file.astype(np.int64) << 32) | line.astype(np.uint32))
    return Frames(
        parent=parent,
        file=file,
        line=line,
        function=facts.function[code],
        first_line=facts.first_line[code],
        location=location.astype(np.int32),
        from_graph=from_graph,
        user=user,
        user_of=nearest(parent, user),
        library_of=nearest(parent, facts.library[code]),
        optimizer_of=optimizer_of,
        in_optimizer=_in_optimizer(parent, code, facts, optimizer_of),
        checkpoint_of=nearest(parent, facts.checkpoint[code]),
        engine_of=nearest(parent, facts.engine[code]),
        outer_module=outermost(parent, module_call),
    )


def nearest(parent: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each node the nearest one at or above it that is ``wanted``; 0 when there is none.

    ``parent[0]`` is 0 and node 0 is never wanted.
    """
    at = np.where(wanted, np.arange(len(parent), dtype=parent.dtype), parent)
    at[0] = 0
    while True:
        further = at[at]
        if np.array_equal(further, at):
            return at
        at = further


def outermost(parent: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each node the outermost one at or above it that is ``wanted``; 0 when there is none."""
    here = nearest(parent, wanted)
    above = here[parent]  # the nearest one strictly above
    above = np.where(here == np.arange(len(parent)), above, here)
    at = np.where(above == 0, here, above)
    while True:  # climb from wanted node to wanted node until none is above
        further = at[at]
        if np.array_equal(further, at):
            return at
        at = further


def _in_optimizer(parent: np.ndarray, code: np.ndarray, facts: CodeFacts, optimizer_of: np.ndarray) -> np.ndarray:
    """Frames that do an optimizer's work: below ``step()``, but not in a closure that it calls.

    A closure is a module call, or code outside torch that an optimizer of torch called.
    """
    outside, step, above_torch = 0, 1, 2  # not in a step; in its wrapper or a user's step; in torch's step
    state = np.zeros(len(parent), np.int8)
    closed = 3
    for frame in np.flatnonzero(optimizer_of).tolist():
        c = code[frame]
        before = state[parent[frame]]
        if facts.step_wrapper[c]:
            state[frame] = step
        elif before in (outside, closed) or facts.module_call[c] or (before == above_torch and facts.library[c]):
            state[frame] = closed
        elif facts.optimizer_code[c]:
            state[frame] = above_torch
        else:
            state[frame] = before
    return (state == step) | (state == above_torch)


def _outside_torch(info: FileInfo) -> bool:
    return info.user or (bool(info.path) and not info.torch)
