"""Which row belongs to which: backward nodes to forward operators, work of devices to launches, flows to events."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .ancestors import nearest
from .distinct import distinct
from .frames import Frames
from .kinds import CODE, FLOW
from .nested import Nested, Window
from .recent import NOTE, Recent
from .records import MISSING, Picked
from .tally import HOW, Tally

__all__ = ["Links"]

_AUTOGRAD, _STEP = CODE["autograd"], CODE["step"]
_LANES: Final = 16
"""Lanes with forward operators in which a backward node's is looked for, the fullest first."""


class Links:
    """Remembers what later rows ask for. ``whole``, ``how``, ``phase``, ``rows`` are arrays over the slices that go on
    from earlier windows (``before`` of them) and the rows of a window.
    """

    def __init__(self, nested: Nested, frames: Frames, tally: Tally) -> None:
        self._frames, self._tally = frames, tally
        self._forwards, self._externals, self._launches, self._arrows = Recent(), Recent(), Recent(), Recent()
        lanes = sorted(nested.forward_lanes, key=lambda n: -nested.forward_lanes[n])
        self._forward_lanes = lanes[:_LANES]
        self._stacks_recorded = len(frames.parent) > 1

    def join(
        self, window: Window, whole: dict[str, np.ndarray], parent: np.ndarray, before: int, forward_op: np.ndarray,
        how: np.ndarray, phase: np.ndarray, rows: np.ndarray, links: tuple[np.ndarray, np.ndarray],
    ) -> None:  # fmt: skip
        """Backward nodes take the line and module of their forward operators, and what runs in them too."""
        records = window.records
        put = np.flatnonzero(forward_op[before:])
        self._forwards.put(_key(records["pid"][put], records["sequence"][put]),
                           _notes(put + before, whole, how, phase, rows))  # fmt: skip
        target, linked = links
        by_flow = np.zeros(len(parent), bool)
        by_flow[target] = True
        nodes = np.flatnonzero((records["kind"] == _AUTOGRAD) & ((records["sequence"] != MISSING) | by_flow[before:]))
        found = np.zeros(len(nodes), NOTE)
        found["row"] = -1
        for lane in self._forward_lanes:
            left = np.flatnonzero(found["row"] < 0)
            if not len(left):
                break
            mine = nodes[left]
            found[left] = self._forwards.get(_key(np.full(len(mine), lane), records["sequence"][mine]))
        left = np.flatnonzero((found["row"] < 0) & by_flow[nodes + before])
        if len(left):
            place = np.zeros(len(parent), np.int64)
            place[target] = np.arange(len(target))
            found[left] = linked[place[nodes[left] + before]]
        hit = found["row"] >= 0
        self._tally.joined += int(hit.sum())
        self._tally.not_joined += int((~hit).sum())
        at = nodes + before
        whole["forward"][at[hit]] = found["row"][hit]
        joined = np.zeros(len(parent), bool)
        joined[:before] = whole["forward"][:before] >= 0
        joined[at[hit]] = True
        frames = self._frames
        whole["node"][at[hit]] = np.where(found["node"][hit] > 0, found["node"][hit], 0)
        whole["module"][at[hit]] = found["module"][hit]
        self._set_how(at[hit], whole, how)
        how[at[~hit & (frames.shown[whole["node"][at]] == 0)]] = (
            HOW["forward_not_observed"] if self._stacks_recorded else HOW["not_recorded"])  # fmt: skip
        # The engine's own wrapper around a node shows what the node shows.
        above = parent[at[hit]]
        wrapper = (above >= before) & (whole["kind"][np.maximum(above, 0)] == _AUTOGRAD)
        wrapper &= ~joined[np.maximum(above, 0)]
        for key in ("node", "module", "forward"):
            whole[key][above[wrapper]] = whole[key][at[hit][wrapper]]
        joined[above[wrapper]] = True
        self._set_how(above[wrapper], whole, how)
        node = nearest(parent, joined)
        inside = np.flatnonzero((node >= 0) & ~joined & (np.arange(len(parent)) >= before))
        # What shows a stack of its own inside a node is a hook or a custom function.
        own = whole["own_node"][inside]
        passive = inside[(own == 0) | (own == whole["own_node"][node[inside]])]
        whole["node"][passive] = whole["node"][node[passive]]
        whole["module"][passive] = whole["module"][node[passive]]
        self._set_how(passive, whole, how)

    def flows(
        self, records: np.ndarray | Picked, whole: dict[str, np.ndarray], parent: np.ndarray, before: int,
        how: np.ndarray, phase: np.ndarray, rows: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Flows: positions of the events that they point to, and what is known of those that they point from."""
        at = np.flatnonzero(records["kind"] == FLOW)
        if not len(at):
            return np.zeros(0, np.int64), np.zeros(0, NOTE)
        bound = parent[at + before]
        key = records["category"][at].astype(np.int64) << 32 ^ records["id"][at]
        begins = records["phase"][at] != ord("f")  # a step of a flow ends one arrow and begins the next
        ends = records["phase"][at] != ord("s")
        _, code = distinct(key)
        order = code.astype(np.int64) * (len(at) + 1) + np.arange(len(at))
        sources = np.flatnonzero(begins & (bound >= 0))
        sources = sources[np.argsort(order[sources])]
        notes = _notes(bound[sources], whole, how, phase, rows)
        targets = np.flatnonzero(ends & (bound >= before))
        place: Any = np.searchsorted(order[sources], order[targets]) - 1
        here = (place >= 0) & (code[sources[np.maximum(place, 0)]] == code[targets]) if len(sources) else place >= 0
        found = self._arrows.get(key[targets])
        found[here] = notes[place[here]]
        self._arrows.put(key[sources], notes)
        hit = (found["row"] >= 0) & (found["row"] != rows[bound[targets]])
        self._tally.flows += int(hit.sum())
        self._tally.flows_open += int(np.count_nonzero(ends)) - int(hit.sum())
        position = bound[targets[hit]]
        first, _ = distinct(position)
        return position[first], found[hit][first]

    def _set_how(self, rows: np.ndarray, whole: dict[str, np.ndarray], how: np.ndarray) -> None:
        shown = self._frames.shown[whole["node"][rows]]
        none = HOW["no_python_frame"] if self._stacks_recorded else HOW["not_recorded"]
        said = np.where(self._frames.exact[shown], HOW["forward"], HOW["definition"])
        how[rows] = np.where(shown > 0, said, none)

    def devices(
        self, window: Window, whole: dict[str, np.ndarray], before: int, host: np.ndarray, how: np.ndarray,
        phase: np.ndarray, shown: np.ndarray, rows: np.ndarray, parent: np.ndarray,
    ) -> None:  # fmt: skip
        """Work on a device shows the line, module and phase of the operator that launched it."""
        records, here = window.records, host[before:]
        external, correlation = records["external"], records["correlation"]
        ops = np.flatnonzero(here & (external != MISSING) & (correlation == MISSING) & (records["kind"] != _STEP))
        self._externals.put(external[ops], _notes(ops + before, whole, how, phase, rows))
        calls = np.flatnonzero(here & (correlation != MISSING))
        above = parent[calls + before]
        callers = np.where(above >= 0, above, calls + before)
        self._launches.put(correlation[calls], _notes(callers, whole, how, phase, rows))
        work = np.flatnonzero(~here & ((external != MISSING) | (correlation != MISSING)) & (records["kind"] != FLOW))
        if not len(work):
            return
        found = self._launches.get(correlation[work])
        found["row"][correlation[work] == MISSING] = -1
        left = np.flatnonzero((found["row"] < 0) & (external[work] != MISSING))
        found[left] = self._externals.get(external[work[left]])
        hit = found["row"] >= 0
        self._tally.launched += int(hit.sum())
        self._tally.not_launched += int((~hit).sum())
        at = work[hit] + before
        found = found[hit]
        whole["forward"][at] = found["row"]
        whole["node"][at], whole["module"][at] = found["node"], found["module"]
        how[at], phase[at] = found["how"], found["phase"]
        shown[at] = np.where(found["how"] == HOW["forward_not_observed"], 0, self._frames.shown[found["node"]])


def _key(lane: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    return lane.astype(np.int64) << 40 ^ sequence


def _notes(
    at: np.ndarray, whole: dict[str, np.ndarray], how: np.ndarray, phase: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    notes = np.zeros(len(at), NOTE)
    notes["row"], notes["node"], notes["module"] = rows[at], whole["node"][at], whole["module"][at]
    notes["how"], notes["phase"] = how[at], phase[at]
    return notes
