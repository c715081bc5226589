"""The third pass, first half: where the line, module and phase of each nested record come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .ancestors import nearest
from .coded import CodedById
from .columns import Columns
from .frames import Frames
from .kinds import CODE, FLOW, FRAME, Kinds
from .layout import Layout
from .links import Links
from .nested import Nested, Window
from .own import Own
from .records import MISSING
from .tally import HOW, PHASE, TIMED, Tally

__all__ = ["RowMaker"]

_AUTOGRAD, _RANGE = CODE["autograd"], CODE["range"]
_RUNS_AGAIN: Final = re.compile(r"(?:autograd::engine::evaluate_function: )?CheckpointFunctionBackward")
"""Nodes that do nothing but run forward again and then, in nodes of their own, its backward."""
_HAS_PHASE: Final = TIMED.copy()
_HAS_PHASE[[CODE[k] for k in ("range", "device")]] = True


@dataclass
class _Open:
    """Slices that go on after the window, as the rows after it need them."""

    row: np.ndarray
    end: np.ndarray
    parent: np.ndarray
    state: dict[str, np.ndarray]


_STATE: Final = ("kind", "name", "node", "shown", "module", "hierarchy", "how", "forward", "own_node", "entry")


class RowMaker:
    """Makes columns, window after window."""

    def __init__(
        self, nested: Nested, frames: Frames, stack_nodes: dict[int, int], kinds: Kinds, layout: Layout,
        is_optimizer: np.ndarray, name_nodes: np.ndarray | None, own: Own | None = None,
    ) -> None:  # fmt: skip
        texts = kinds.texts
        self.frames, self.layout = frames, layout
        self.tally = Tally()
        self._is_optimizer = is_optimizer
        self._stack_numbers = np.array(sorted(stack_nodes), np.int64)
        self._stack_nodes = np.array([stack_nodes[n] for n in sorted(stack_nodes)], np.int64)
        self._stacks_recorded = len(frames.parent) > 1
        self._name_nodes = name_nodes
        self._open = _Open(*(np.zeros(0, np.int64),) * 3, {n: np.zeros(0, np.int64) for n in _STATE})
        self._hierarchies = CodedById(lambda n: _hierarchy(texts.content(n)), frames.modules)
        self._runs_again = CodedById(lambda n: "again" if _RUNS_AGAIN.fullmatch(texts.content(n)) else None)
        self._links = Links(nested, frames, self.tally)
        self._columns = Columns(nested.start, frames, kinds, layout, self.tally, own)

    @property
    def refused(self) -> int:
        """Texts that were left out because all of them are too long."""
        return self._columns.refused

    def columns(self, window: Window) -> dict[str, Any] | None:
        """The columns of the window's events; None when it has none."""
        records = window.records
        kind = records["kind"]
        state = self._origins(window)
        keep = (kind != FRAME) & (kind != FLOW)
        result = self._columns.of(window, state, keep) if keep.any() else None
        self._carry(window, state)
        return result

    def _origins(self, window: Window) -> dict[str, np.ndarray]:
        records, open_ = window.records, self._open
        before = len(open_.row)
        parent = self._parents(window)
        whole: dict[str, np.ndarray] = {}
        name = records["name"]
        node = window.node.astype(np.int64)
        if len(self._stack_numbers) > 1:
            inline = self._stack_nodes[np.searchsorted(self._stack_numbers, records["stack"])]
            node = np.where(inline > 0, inline, node)
        if self._name_nodes is not None:
            named = self._name_nodes[np.where(name < len(self._name_nodes), name, 0)]
            node = np.where(named > 0, named, node)
        own = {
            "kind": records["kind"].astype(np.int64), "name": name.astype(np.int64), "node": node, "own_node": node,
            "hierarchy": records["hierarchy"].astype(np.int64), "shown": np.zeros(len(records), np.int64),
            "module": np.full(len(records), -1), "how": np.zeros(len(records), np.int64),
            "forward": np.full(len(records), -1),
            "entry": (records["sequence"] != MISSING)
            & ((records["forward"] == MISSING) | (records["forward"] == 0)),
        }  # fmt: skip
        for key in _STATE:
            whole[key] = np.concatenate([open_.state[key], own[key]])
        kind = whole["kind"]
        host = np.concatenate([np.ones(before, bool), self.layout.host[records["pid"]]])
        # Called from C++ inside an event that has a stack: that one.
        has = nearest(parent, whole["node"] > 0)
        inherited = (whole["node"] == 0) & (has >= 0)
        whole["node"] = np.where(inherited, whole["node"][has], whole["node"])
        module = self._modules(whole, parent)
        whole["module"] = np.where(np.arange(len(parent)) < before, whole["module"], module)
        autograd = kind == _AUTOGRAD
        around = nearest(parent, autograd)
        forward_op = (whole["entry"] != 0) & (around < 0) & host
        how = self._how(whole, inherited, around)
        optimizing = (kind == _RANGE) & self._is_optimizer[np.minimum(whole["name"], len(self._is_optimizer) - 1)]
        phase = self._phases(whole, parent, around, nearest(parent, optimizing), nearest(parent, forward_op))
        rows = np.concatenate([open_.row, window.first + np.arange(len(records))])
        target, linked = self._links.flows(records, whole, parent, before, how, phase, rows)
        self._links.join(window, whole, parent, before, forward_op, how, phase, rows, (target, linked))
        fresh = target[whole["forward"][target] < 0]
        whole["forward"][fresh] = linked["row"][whole["forward"][target] < 0]
        shown = self.frames.shown[whole["node"]]
        shown[how == HOW["forward_not_observed"]] = 0
        self._links.devices(window, whole, before, host, how, phase, shown, rows, parent)
        whole["how"], whole["shown"], whole["phase"] = how, shown, phase
        whole["parent"], whole["before"] = parent, np.array([before])
        return whole

    def _parents(self, window: Window) -> np.ndarray:
        """Positions of parents in (open rows, rows of the window)."""
        before, first = len(self._open.row), window.first
        parent = window.parent
        earlier = np.searchsorted(self._open.row, parent) if before else np.zeros(len(parent), np.int64)
        if before:
            earlier = np.minimum(earlier, before - 1)
            earlier = np.where(self._open.row[earlier] == parent, earlier, -1)
        else:
            earlier = np.full(len(parent), -1)
        local = np.where(parent >= first, parent - first + before, np.where(parent >= 0, earlier, -1))
        return np.concatenate([self._open.parent, local])

    def _modules(self, whole: dict[str, np.ndarray], parent: np.ndarray) -> np.ndarray:
        module = self.frames.module[whole["node"]].astype(np.int64)
        if whole["hierarchy"].any():
            said = nearest(parent, whole["hierarchy"] > 0)
            codes = self._hierarchies.codes(whole["hierarchy"][np.maximum(said, 0)])
            module = np.where(said >= 0, np.where(codes >= 0, codes, module), module)
        return module

    def _how(self, whole: dict[str, np.ndarray], inherited: np.ndarray, around: np.ndarray) -> np.ndarray:
        frames, node = self.frames, whole["node"]
        shown = frames.shown[node]
        exact = frames.exact[shown]
        user = frames.user[shown]
        how = np.where(inherited, HOW["inherited"], HOW["stack"])
        how = np.where(around >= 0, HOW["backward_call"], how)
        how = np.where(~exact, HOW["definition"], how)
        how = np.where(~user, HOW["library_frame"], how)
        none = HOW["no_python_frame"] if self._stacks_recorded else HOW["not_recorded"]
        missing = np.where((around >= 0) & self._stacks_recorded, HOW["parameter_gradient"], none)
        return np.where(shown == 0, missing, how)

    def _phases(
        self, whole: dict[str, np.ndarray], parent: np.ndarray, around: np.ndarray, optimizer: np.ndarray,
        forward: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        forward_phase = (forward >= 0) | self.frames.in_module[whole["node"]] | (whole["module"] >= 0)
        phase = np.where(forward_phase, PHASE["forward"], PHASE["other"])
        phase[optimizer >= 0] = PHASE["optimizer"]
        phase[around >= 0] = PHASE["backward"]
        phase[self._recomputes(whole, around)] = PHASE["recompute"]
        phase[~_HAS_PHASE[whole["kind"]]] = PHASE["other"]
        return phase

    def _recomputes(self, whole: dict[str, np.ndarray], around: np.ndarray) -> np.ndarray:
        """Positions of what a node of backward runs again: called by activation checkpointing within the node."""
        inside = np.flatnonzero((around >= 0) & (whole["kind"] != _AUTOGRAD))
        node = around[inside]
        again = self._runs_again.codes(whole["name"][node]) >= 0
        checkpoint = self.frames.checkpoint
        called = checkpoint[whole["node"][inside]]
        again |= (called > 0) & (called != checkpoint[whole["node"][node]])
        found: np.ndarray = inside[again]
        return found

    def _carry(self, window: Window, state: dict[str, np.ndarray]) -> None:
        """Keep the slices that go on."""
        records, open_ = window.records, self._open
        before = int(state["before"][0])
        last = int(records["start"][-1])
        end = np.concatenate([open_.end, records["start"] + records["duration"]])
        row = np.concatenate([open_.row, window.first + np.arange(len(records))])
        going = np.flatnonzero(end > last)
        new = np.full(before + len(records), -1)
        new[going] = np.arange(len(going))
        parent = state["parent"][going]
        self._open = _Open(
            row[going], end[going], np.where(parent >= 0, new[parent], -1), {k: state[k][going] for k in _STATE}
        )


def _hierarchy(text: str) -> str:
    """``TOP(Net)::forward.FC(Linear)::forward`` → ``Net.FC``."""
    parts = [p.split("(", 1) for p in re.split(r"::\w+\.?", text) if p]
    names = [(p[1].rstrip(")") if p[0] == "TOP" and len(p) > 1 else p[0]) for p in parts]
    return ".".join(n for n in names if n)[:2000]
