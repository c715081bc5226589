"""Where each event of a window came from: line, module, phase, and how that was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from . import schema, spool
from .arrays import distinct
from .autograd import ForwardIndex
from .frames import nearest
from .lookups import ENGINE, GRAPH_ROOT, OPTIMIZER_STEP, Lookups
from .rows import Rows, Thread

ATTRIBUTIONS: Final = tuple(schema.ATTRIBUTIONS)
PHASES: Final = schema.PHASES
(_STACK, _INHERITED, _GRAPH, _FORWARD, _BACKWARD_CALL, _LIBRARY, _FORWARD_NOT_OBSERVED, _PARAMETER, _NO_FRAME,
 _NOT_RECORDED, _DEFINITION) = range(len(ATTRIBUTIONS))  # fmt: skip
_FORWARD_PHASE, _BACKWARD, _RECOMPUTE, _OPTIMIZER, _OTHER = range(len(PHASES))

_PHASELESS: Final = np.ones(256, bool)
_PHASELESS[[spool.OP, spool.AUTOGRAD, spool.RANGE, spool.LAUNCH, spool.SYNC, spool.MEMORY]] = False

# How a record relates to the autograd node that it is, or runs in.
_OUTSIDE, _JOINED, _UNNUMBERED, _UNKNOWN = range(4)


@dataclass(frozen=True)
class Origins:
    """Per row of a window. Frames and modules are global ids, 0 for none."""

    stack: np.ndarray  # the frame whose stack the event shows
    line_frame: np.ndarray  # the frame whose file and line it shows
    module: np.ndarray
    attribution: np.ndarray  # code into ATTRIBUTIONS
    phase: np.ndarray  # code into PHASES
    forward_id: np.ndarray  # event id of a node's forward op, -1
    outermost: np.ndarray


def attribute(
    rows: Rows, threads: list[Thread], lookups: Lookups, forwards: dict[tuple[int, int], ForwardIndex],
    stacks_recorded: bool,
) -> Origins:  # fmt: skip
    """Find the origin of every row.

    ``forwards`` maps (process, low half of the logical thread id) to the forward operators
    seen so far, and is extended by this window's.
    """
    entry = (rows.kind == spool.OP) & (rows.aux > 0) & (rows.seq >= 0)
    added = _extend(rows, threads, entry, forwards)
    stack, module, state, forward_id = _resolve(rows, threads, lookups, forwards, added, entry)
    line_frame, attribution = _lines(rows, lookups, stack, state, stacks_recorded)
    return Origins(
        stack=stack,
        line_frame=line_frame,
        module=module,
        attribution=attribution,
        phase=_phases(rows, lookups, entry),
        forward_id=forward_id,
        outermost=_outermost(rows, lookups, line_frame),
    )


def _key(thread: Thread) -> tuple[int, int]:
    return thread.process, thread.scan.file.logical & 0xFFFFFFFF


def _extend(
    rows: Rows, threads: list[Thread], entry: np.ndarray, forwards: dict[tuple[int, int], ForwardIndex]
) -> list[tuple[ForwardIndex, int, np.ndarray]]:
    """Add the window's forward operators; returns (index, first position, rows) per thread."""
    fresh = np.flatnonzero(entry & rows.own)
    if not len(fresh):
        return []
    parent = _with_root(rows.parent)
    enclosing = nearest(parent, np.concatenate([[False], entry]))[parent[fresh + 1]]
    up_record = np.where(enclosing > 0, rows.index[enclosing - 1], -1)
    added = []
    owners = rows.thread[fresh]
    for owner in distinct(owners).tolist():
        mine = owners == owner
        picked = fresh[mine]
        index = forwards.setdefault(_key(threads[owner]), ForwardIndex(threads[owner].id_base))
        first = rows.seq[picked]
        start = index.append(first, first + rows.aux[picked], rows.index[picked], up_record[mine])
        added.append((index, start, picked))
    return added


def _resolve(
    rows: Rows, threads: list[Thread], lookups: Lookups, forwards: dict[tuple[int, int], ForwardIndex],
    added: list[tuple[ForwardIndex, int, np.ndarray]], entry: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Stack, module and relation to autograd of each row, following nodes to their forward ops."""
    count = len(rows)
    stack, module = rows.stack.astype(np.int64), rows.module.astype(np.int64)
    state = np.zeros(count, np.int8)
    forward_id = np.full(count, -1, np.int64)
    source = np.arange(count)  # the row that stack and module are taken from
    nodes = np.flatnonzero(rows.kind == spool.AUTOGRAD)
    if len(nodes):
        _join(rows, threads, forwards, added, nodes, stack, module, state, forward_id, source)
        graph_root = (lookups.traits[rows.name[nodes]] & GRAPH_ROOT) != 0
        state[nodes[graph_root & (state[nodes] == _UNKNOWN)]] = _UNNUMBERED
    inside = np.flatnonzero((rows.node >= 0) & (rows.kind != spool.AUTOGRAD))
    if len(inside):
        node = rows.node[inside]
        user_of = lookups.frames.user_of
        # On the CPU a node runs below backward(), and shows that stack; what shows a user
        # frame of its own is a hook, a Function's backward or recomputed forward.
        passive = (rows.stack[inside] == 0) | (user_of[rows.stack[inside]] == user_of[rows.stack[node]])
        state[inside[passive]] = state[node[passive]]
        takes = passive & ((state[node] == _JOINED) | (rows.stack[inside] == 0))
        source[inside[takes]] = node[takes]
    _follow_engine(rows, lookups, nodes, state, source, forward_id)
    source = _settled(source)
    stack, module = stack[source], module[source]
    for index, start, picked in added:
        index.settle(start, stack[picked], module[picked])
    return stack, module, state, forward_id


def _join(
    rows: Rows, threads: list[Thread], forwards: dict[tuple[int, int], ForwardIndex],
    added: list[tuple[ForwardIndex, int, np.ndarray]], nodes: np.ndarray, stack: np.ndarray,
    module: np.ndarray, state: np.ndarray, forward_id: np.ndarray, source: np.ndarray,
) -> None:  # fmt: skip
    fresh = {id(index): (start, picked) for index, start, picked in added}
    numbered = rows.seq[nodes] >= 0
    state[nodes] = np.where(numbered, _UNKNOWN, _UNNUMBERED)
    process = np.array([t.process for t in threads])[rows.thread[nodes]]
    keys = (process.astype(np.int64) << 32) | rows.aux[nodes]
    for key in distinct(keys[numbered]).tolist():
        index = forwards.get((key >> 32, key & 0xFFFFFFFF))
        if index is None:
            continue
        mine = nodes[numbered & (keys == key)]
        at = index.find(rows.seq[mine])
        mine, at = mine[at >= 0], at[at >= 0]
        state[mine] = _JOINED
        forward_id[mine] = index.id_base + index.record[at]
        start, picked = fresh.get(id(index), (index.count, np.zeros(0, np.int64)))
        here = at >= start  # made in this window: its own origin may not be settled yet
        source[mine[here]] = picked[at[here] - start]
        stack[mine[~here]] = index.stack[at[~here]]
        module[mine[~here]] = index.module[at[~here]]


def _follow_engine(
    rows: Rows, lookups: Lookups, nodes: np.ndarray, state: np.ndarray, source: np.ndarray,
    forward_id: np.ndarray,
) -> None:  # fmt: skip
    """The engine's own range around a node, and what it does there itself, belong to the node."""
    is_engine = (lookups.traits[rows.name] & ENGINE) != 0
    wrapped = nodes[(rows.parent[nodes] >= 0) & is_engine[rows.parent[nodes]]]
    if not len(wrapped):
        return
    node_of = np.full(len(rows) + 1, -1, np.int64)
    node_of[rows.parent[wrapped]] = wrapped
    forward_id[rows.parent[wrapped]] = forward_id[wrapped]
    around = nearest(_with_root(rows.parent), np.concatenate([[False], is_engine]))[1:] - 1
    # The innermost of the two counts: engines run inside nodes (checkpoints), nodes inside engines.
    mine = np.flatnonzero((around > rows.node) & (rows.kind != spool.AUTOGRAD))
    node = node_of[around[mine]]
    mine, node = mine[node >= 0], node[node >= 0]
    user_of = lookups.frames.user_of
    outer = rows.stack[rows.parent[node]]
    passive = (rows.stack[mine] == 0) | (user_of[rows.stack[mine]] == user_of[outer])
    mine, node = mine[passive], node[passive]
    state[mine] = state[node]
    joined = state[node] == _JOINED
    source[mine[joined]] = node[joined]


def _settled(source: np.ndarray) -> np.ndarray:
    """Follow sources to their end. A double backward takes two hops for each derivative."""
    for _ in range(64):
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    return source


def _lines(
    rows: Rows, lookups: Lookups, stack: np.ndarray, state: np.ndarray, stacks_recorded: bool
) -> tuple[np.ndarray, np.ndarray]:
    frames = lookups.frames
    user, library = frames.user_of[stack], frames.library_of[stack]
    line_frame = np.where(user > 0, user, library)
    none = _NO_FRAME if stacks_recorded else _NOT_RECORDED
    own = (rows.flags & spool.OWN_STACK) != 0
    found = np.where(own, np.where(frames.from_graph[line_frame], _GRAPH, _STACK), _INHERITED)
    found = np.where(state == _JOINED, _FORWARD, found)
    found = np.where(state == _UNNUMBERED, _BACKWARD_CALL, found)
    found = np.where((user == 0) & (library > 0) & (state != _JOINED), _LIBRARY, found)
    found = np.where(line_frame == 0, np.where(state == _UNNUMBERED, _PARAMETER, none), found)
    unknown = state == _UNKNOWN
    found[unknown] = _FORWARD_NOT_OBSERVED
    line_frame[unknown] = 0
    return line_frame, found.astype(np.int8)


def _phases(rows: Rows, lookups: Lookups, entry: np.ndarray) -> np.ndarray:
    frames, stack = lookups.frames, rows.stack
    traits = lookups.traits[rows.name]
    own = ((traits & OPTIMIZER_STEP) != 0) | (entry.astype(np.uint8) << 1) | (((traits & ENGINE) != 0) * np.uint8(4))
    above = _over_ancestors(rows.parent, own.astype(np.uint8))
    steps = frames.optimizer_of[stack]
    optimizer = np.where(steps > 0, frames.in_optimizer[stack], (above & 1) != 0)
    forward = (rows.module > 0) | ((above & 2) != 0)
    phase = np.where(optimizer, _OPTIMIZER, np.where(forward, _FORWARD_PHASE, _OTHER))
    engine = frames.engine_of[stack]
    backward = (rows.node >= 0) | (rows.kind == spool.AUTOGRAD) | ((above & 4) != 0) | (engine > 0)
    phase[backward] = _BACKWARD
    inside = np.flatnonzero(backward & (stack > 0) & (rows.kind != spool.AUTOGRAD))
    if len(inside):
        # Frames below this run of the engine count, not those that the engine was called from.
        mine, node = stack[inside], rows.node[inside]
        outer = np.where(node >= 0, stack[node], 0)
        again, steps = frames.checkpoint_of[mine], steps[inside]
        recompute = (again > 0) & (frames.engine_of[again] == engine[inside])
        recompute &= (again != frames.checkpoint_of[outer]) & (mine != outer)
        phase[inside[recompute]] = _RECOMPUTE
        stepping = (steps > 0) & (frames.engine_of[steps] == engine[inside]) & frames.in_optimizer[mine]
        phase[inside[stepping & (steps != frames.optimizer_of[outer])]] = _OPTIMIZER
    # A collection of garbage or a wait for data belongs to no phase of the model.
    phase[_PHASELESS[rows.kind]] = _OTHER
    return phase.astype(np.int8)


def _over_ancestors(parent: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Each row's bits together with those of all rows that enclose it."""
    at, result = _with_root(parent), np.concatenate([np.zeros(1, bits.dtype), bits])
    while at.any():
        result |= result[at]
        at = at[at]
    return result[1:]


def _outermost(rows: Rows, lookups: Lookups, line_frame: np.ndarray) -> np.ndarray:
    """Rows that no enclosing row shares the file and line of."""
    place = np.where(line_frame > 0, lookups.frames.location[line_frame], -1)
    result = np.ones(len(rows), bool)
    row = np.flatnonzero((place >= 0) & (rows.parent >= 0))
    above = rows.parent[row]
    while len(row):
        same = place[above] == place[row]
        result[row[same]] = False
        row, above = row[~same], rows.parent[above[~same]]
        row, above = row[above >= 0], above[above >= 0]
    return result


def _with_root(parent: np.ndarray) -> np.ndarray:
    """Parents shifted by one, so that 0 stands for the top."""
    return np.concatenate([np.zeros(1, np.int64), parent.astype(np.int64) + 1])
