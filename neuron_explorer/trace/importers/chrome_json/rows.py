"""The third pass: windows of nested records as columns of the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ... import schema
from ...text import TextTable
from ...write import Coded
from .ancestors import nearest, outermost
from .blocks import Blocks, memory_device
from .coded import CodedById, CodedByKey
from .details import Details
from .distinct import distinct
from .frames import Frames
from .kinds import CODE, FLOW, FRAME, KINDS, Kinds
from .nested import Nested, Window
from .own import Own
from .recent import NOTE, Recent
from .records import MISSING
from .signatures import Signatures

__all__ = ["Layout", "RowMaker", "Tally"]

ATTRIBUTIONS: Final = tuple(schema.ATTRIBUTIONS)
_HOW: Final = {name: code for code, name in enumerate(ATTRIBUTIONS)}
_PHASE: Final = {name: code for code, name in enumerate(schema.PHASES)}
_AUTOGRAD, _RANGE, _LAUNCH, _STEP, _MEMORY = (CODE[k] for k in ("autograd", "range", "launch", "step", "memory"))
_WORK: Final = ("op", "autograd", "launch", "copy", "sync", "fallback", "collective")
_TIMED: Final = np.zeros(256, bool)
_TIMED[[CODE[k] for k in _WORK]] = True
_HAS_PHASE: Final = _TIMED.copy()
_HAS_PHASE[[CODE[k] for k in ("range", "device")]] = True
_COMPILED: Final = re.compile(r"Torch-Compiled Region: (\S{1,100})")


@dataclass(frozen=True)
class Layout:
    """Lanes as the trace has them, by the lane number of the first pass, and the steps."""

    lane: np.ndarray
    process: np.ndarray
    thread: np.ndarray
    stream: np.ndarray
    device: list[str | None]
    host: np.ndarray
    step_start: np.ndarray
    step_end: np.ndarray
    step_number: np.ndarray
    rank: int = 0


@dataclass
class Tally:
    """What was counted while the rows were made."""

    events: int = 0
    by_kind: np.ndarray = field(default_factory=lambda: np.zeros(len(KINDS), np.int64))
    attribution: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    attribution_self: np.ndarray = field(default_factory=lambda: np.zeros(len(ATTRIBUTIONS), np.int64))
    with_line: int = 0
    joined: int = 0
    not_joined: int = 0
    launched: int = 0
    not_launched: int = 0
    flows: int = 0
    flows_open: int = 0
    shapes: bool = False
    stacks: bool = False
    modules: bool = False
    arguments: bool = False


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
        self.nested, self.frames, self.layout, self.kinds = nested, frames, layout, kinds
        self.tally = Tally()
        self._is_optimizer = is_optimizer
        self._stack_numbers = np.array(sorted(stack_nodes), np.int64)
        self._stack_nodes = np.array([stack_nodes[n] for n in sorted(stack_nodes)], np.int64)
        self._stacks_recorded = len(frames.parent) > 1
        self._forwards, self._externals, self._launches = Recent(), Recent(), Recent()
        self._flows = Recent()
        self._blocks = Blocks()
        self._name_nodes = name_nodes
        self._own = own
        self._open = _Open(*(np.zeros(0, np.int64),) * 3, {n: np.zeros(0, np.int64) for n in _STATE})
        self._names = CodedById(lambda n: texts.content(n) or "(no name)")
        self._hierarchies = CodedById(lambda n: _hierarchy(texts.content(n)), frames.modules)
        self._compile_ids = CodedById(lambda n: _compile_id(texts.content(n)))
        signatures = Signatures(texts)
        self._shapes, self._strides = CodedByKey(signatures.shapes), CodedByKey(signatures.strides)
        self._dtypes, self._arguments = CodedById(signatures.dtypes), CodedById(signatures.arguments)
        self._details_of = Details(kinds)
        self._details = CodedByKey(self._details_of.text)
        self._device_table = TextTable()
        self._devices_of_lanes = self._device_table.codes(layout.device)
        self._memory_devices = CodedByKey(lambda rest, number: memory_device(texts, rest, number), self._device_table)
        lanes = sorted(nested.forward_lanes, key=lambda n: -nested.forward_lanes[n])
        self._forward_lanes = lanes[:16]

    @property
    def refused(self) -> int:
        """Texts that were left out because all of them are too long."""
        return sum(one.refused for one in (self._shapes, self._strides, self._details))

    def columns(self, window: Window) -> dict[str, Any] | None:
        """The columns of the window's events; None when it has none."""
        records = window.records
        kind = records["kind"]
        state = self._origins(window)
        keep = (kind != FRAME) & (kind != FLOW)
        result = self._columns(window, state, keep) if keep.any() else None
        self._carry(window, state)
        return result

    # Where rows come from --------------------------------------------------------------------

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
        target, linked = self._links(records, whole, parent, before, how, phase, rows)
        self._join(window, whole, parent, before, forward_op, how, phase, rows, (target, linked))
        fresh = target[whole["forward"][target] < 0]
        whole["forward"][fresh] = linked["row"][whole["forward"][target] < 0]
        shown = self.frames.shown[whole["node"]]
        shown[how == _HOW["forward_not_observed"]] = 0
        self._devices(window, whole, before, host, how, phase, shown, rows, parent)
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
        how = np.where(inherited, _HOW["inherited"], _HOW["stack"])
        how = np.where(around >= 0, _HOW["backward_call"], how)
        how = np.where(~exact, _HOW["definition"], how)
        how = np.where(~user, _HOW["library_frame"], how)
        none = _HOW["no_python_frame"] if self._stacks_recorded else _HOW["not_recorded"]
        missing = np.where((around >= 0) & self._stacks_recorded, _HOW["parameter_gradient"], none)
        return np.where(shown == 0, missing, how)

    def _phases(
        self, whole: dict[str, np.ndarray], parent: np.ndarray, around: np.ndarray, optimizer: np.ndarray,
        forward: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        forward_phase = (forward >= 0) | self.frames.in_module[whole["node"]] | (whole["module"] >= 0)
        phase = np.where(forward_phase, _PHASE["forward"], _PHASE["other"])
        phase[optimizer >= 0] = _PHASE["optimizer"]
        phase[around >= 0] = _PHASE["backward"]
        phase[~_HAS_PHASE[whole["kind"]]] = _PHASE["other"]
        return phase

    def _join(
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
        self.tally.joined += int(hit.sum())
        self.tally.not_joined += int((~hit).sum())
        at = nodes + before
        whole["forward"][at[hit]] = found["row"][hit]
        joined = np.zeros(len(parent), bool)
        joined[:before] = whole["forward"][:before] >= 0
        joined[at[hit]] = True
        frames = self.frames
        whole["node"][at[hit]] = np.where(found["node"][hit] > 0, found["node"][hit], 0)
        whole["module"][at[hit]] = found["module"][hit]
        self._set_how(at[hit], whole, how)
        how[at[~hit & (frames.shown[whole["node"][at]] == 0)]] = (
            _HOW["forward_not_observed"] if self._stacks_recorded else _HOW["not_recorded"])  # fmt: skip
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

    def _links(
        self, records: np.ndarray, whole: dict[str, np.ndarray], parent: np.ndarray, before: int, how: np.ndarray,
        phase: np.ndarray, rows: np.ndarray,
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
        found = self._flows.get(key[targets])
        found[here] = notes[place[here]]
        self._flows.put(key[sources], notes)
        hit = (found["row"] >= 0) & (found["row"] != rows[bound[targets]])
        self.tally.flows += int(hit.sum())
        self.tally.flows_open += int(np.count_nonzero(ends)) - int(hit.sum())
        position = bound[targets[hit]]
        first, _ = distinct(position)
        return position[first], found[hit][first]

    def _set_how(self, rows: np.ndarray, whole: dict[str, np.ndarray], how: np.ndarray) -> None:
        shown = self.frames.shown[whole["node"][rows]]
        none = _HOW["no_python_frame"] if self._stacks_recorded else _HOW["not_recorded"]
        said = np.where(self.frames.exact[shown], _HOW["forward"], _HOW["definition"])
        how[rows] = np.where(shown > 0, said, none)

    def _devices(
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
        self.tally.launched += int(hit.sum())
        self.tally.not_launched += int((~hit).sum())
        at = work[hit] + before
        found = found[hit]
        whole["forward"][at] = found["row"]
        whole["node"][at], whole["module"][at] = found["node"], found["module"]
        how[at], phase[at] = found["how"], found["phase"]
        shown[at] = np.where(found["how"] == _HOW["forward_not_observed"], 0, self.frames.shown[found["node"]])

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

    # Columns ---------------------------------------------------------------------------------

    def _columns(self, window: Window, state: dict[str, np.ndarray], keep: np.ndarray) -> dict[str, Any]:
        before = int(state["before"][0])
        picked = np.flatnonzero(keep)
        whole = picked + before
        records, frames, layout = window.records[picked], self.frames, self.layout
        lane, kind = records["pid"], records["kind"]
        shown, how = state["shown"][whole], state["how"][whole]
        said = None if self._own is None else self._own.places(records["rest"])
        if self._own is not None and said is not None:
            kind, how = self._own.kinds(said, kind), self._own.attributions(said, how)
        start = records["start"] - self.nested.start
        self._count(kind, window.own[picked], how, shown)
        places = np.where(state["shown"] > 0, frames.place[state["shown"]], -1)
        step, period = self._steps(records["start"])
        module = state["module"][whole]
        shapes = self._shapes.codes(records["dims"], records["types"])
        arguments = self._arguments.codes(records["concrete"])
        self.tally.shapes |= bool((shapes >= 0).any())
        self.tally.arguments |= bool((arguments >= 0).any())
        self.tally.modules |= bool((module >= 0).any())
        parent = window.parent[picked]
        node = state["node"][whole]
        devices = np.array([-1 if d is None else i for i, d in enumerate(layout.device)], np.int32)
        numbers = {slot: np.where(records[slot] == MISSING, -1, records[slot])
                   for slot in ("external", "correlation", "index", "sequence")}  # fmt: skip
        compiled = np.where(kind == _LAUNCH, records["name"], 0)
        columns = {
            "kind": Coded(kind.astype(np.int32), KINDS),
            "name": self._names.table.column(self._name_codes(records)),
            "start": start,
            "duration": records["duration"],
            "self": window.own[picked],
            "id": window.first + picked,
            "parent": parent,
            "depth": window.depth[picked],
            "lane": layout.lane[lane],
            "rank": np.full(len(picked), layout.rank, np.int32),
            "process": layout.process[lane],
            "thread": layout.thread[lane],
            "device": self._device(records, devices[lane]),
            "stream": layout.stream[lane],
            "stack": np.where(node > 0, node, -1),
            "file": frames.files.column(np.where(shown > 0, frames.file[shown], -1)),
            "line": np.where(shown > 0, frames.line[shown], -1),
            "function": frames.functions.column(np.where(shown > 0, frames.function[shown], -1)),
            "attribution": Coded(how.astype(np.int32), ATTRIBUTIONS),
            "outermost_on_line": outermost(state["parent"], places)[whole],
            "module": frames.modules.column(module),
            "phase": Coded(state["phase"][whole].astype(np.int32), schema.PHASES),
            "period": Coded(period, schema.PERIODS),
            "step": step,
            "sequence": numbers["sequence"],
            "shapes": self._shapes.table.column(shapes),
            "strides": self._strides.column(records["strides"], np.where(records["strides"] > 0, records["types"], 0)),
            "dtypes": self._dtypes.column(records["types"]),
            "arguments": self._arguments.table.column(arguments),
            "correlation": self._blocks.numbered(records, state["forward"][whole]),
            "external_id": numbers["external"],
            "correlation_id": numbers["correlation"],
            "source_index": numbers["index"],
            "compile_id": self._compile_ids.column(compiled),
            "detail": self._details.column(*self._details_of.numbers(records)),
        }  # fmt: skip
        return columns if self._own is None or said is None else columns | self._own.columns(said, records, columns)

    def _name_codes(self, records: np.ndarray) -> np.ndarray:
        """Names; of memory, what happened."""
        codes = self._names.codes(records["name"])
        memory = records["kind"] == _MEMORY
        if memory.any():
            table, size = self._names.table, records["bytes"]
            named = np.where(size < 0, table.code("release"), table.code("allocate"))
            codes = np.where(memory & (size != MISSING), named, codes)
        return codes

    def _device(self, records: np.ndarray, lane_device: np.ndarray) -> Coded:
        memory = records["kind"] == _MEMORY
        codes = np.where(lane_device >= 0, self._devices_of_lanes[lane_device], -1)
        if memory.any():
            number = np.where(records["device"] == MISSING, -1, records["device"])[memory]
            codes[memory] = self._memory_devices.codes(records["rest"][memory], np.clip(number, -1, 1 << 20))
        return self._device_table.column(codes)

    def _steps(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        layout = self.layout
        if not len(layout.step_start):
            return np.full(len(start), -1, np.int32), np.full(len(start), -1, np.int32)
        at = np.searchsorted(layout.step_start, start, "right") - 1
        inside = (at >= 0) & (start < layout.step_end[np.maximum(at, 0)])
        period = np.where(at == 0, schema.PERIODS.index("warmup"), schema.PERIODS.index("steady"))
        return np.where(inside, layout.step_number[np.maximum(at, 0)], -1), np.where(inside, period, -1)

    def _count(self, kind: np.ndarray, own: np.ndarray, how: np.ndarray, shown: np.ndarray) -> None:
        tally = self.tally
        tally.events += len(kind)
        tally.by_kind += np.bincount(kind, minlength=len(KINDS))
        timed = np.flatnonzero(_TIMED[kind] & (how >= 0))
        time = np.maximum(own[timed], 0)
        tally.attribution += np.bincount(how[timed], minlength=len(ATTRIBUTIONS))
        tally.attribution_self += np.bincount(how[timed], time, minlength=len(ATTRIBUTIONS)).astype(np.int64)
        tally.with_line += int(time[shown[timed] > 0].sum())


def _key(lane: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    return lane.astype(np.int64) << 40 ^ sequence


def _notes(
    at: np.ndarray, whole: dict[str, np.ndarray], how: np.ndarray, phase: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    notes = np.zeros(len(at), NOTE)
    notes["row"], notes["node"], notes["module"] = rows[at], whole["node"][at], whole["module"][at]
    notes["how"], notes["phase"] = how[at], phase[at]
    return notes


def _hierarchy(text: str) -> str:
    """``TOP(Net)::forward.FC(Linear)::forward`` → ``Net.FC``."""
    parts = [p.split("(", 1) for p in re.split(r"::\w+\.?", text) if p]
    names = [(p[1].rstrip(")") if p[0] == "TOP" and len(p) > 1 else p[0]) for p in parts]
    return ".".join(n for n in names if n)[:2000]


def _compile_id(name: str) -> str | None:
    found = _COMPILED.match(name)
    return found[1] if found else None
