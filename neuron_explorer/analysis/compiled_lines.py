"""Where the time of compiled regions goes: launches by region, and their time shared over source lines.

A compiled region is one launch, whose inside a profiler sees at best in part. Its graph is known,
with the line of each operator, so the launch's time can be shared over those lines by how long a
roofline says each operator takes. That is an estimate, and is called one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis.compile_events import user_function
from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.flops import cost_of, moves_nothing
from neuron_explorer.analysis.op_cost import MATRIX, Cost
from neuron_explorer.analysis.roofline import matrix_rate
from neuron_explorer.analysis.selection import Selection, lanes, select
from neuron_explorer.analysis.signature import Tensor, TensorList, parse
from neuron_explorer.analysis.source_line import code_at
from neuron_explorer.neuron.hardware import CHIPS

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MOST_REGIONS: Final = 500
MOST_LINES: Final = 500
MOST_LAUNCHES: Final = 2_000_000

CHIP: Final = "trn2"
"""The chip whose roofline weighs operators against each other; only ratios matter."""

ESTIMATE: Final = (
    "An estimate: a launch's time is shared over the lines of its graph by the time a roofline of one device of "
    "Trainium2 gives each operator (the longer of arithmetic and bytes, one after another). A compiler fuses "
    "operators, so the true shares differ; sums are exact. A backward is shared as its forward is."
)


@dataclass(frozen=True)
class Region:
    """Launches of one compiled region. Times in ns, of the host.

    ``own_ns``: without the regions launched from inside it and without compilations;
    ``median_ns`` is the median of that. ``backward_ns``:
    of the backward that belongs to it. ``caller_*``: the line that called it most often.
    ``compile_event``: id of its compile row, -1 when it was compiled before the recording.
    ``graph_ops``: operators in its graph, -1 unknown.
    """

    process: int
    compile_id: str
    function: str
    file: str
    line: int
    caller_file: str
    caller_line: int
    caller_function: str
    launches: int
    total_ns: int
    own_ns: int
    backward_launches: int
    backward_ns: int
    median_ns: int
    compile_event: int
    backend: str
    graph_ops: int
    events: tuple[int, ...]


@dataclass(frozen=True)
class CompiledLine:
    """A source line's estimated part of compiled regions. ``ns`` is ``forward_ns`` and ``backward_ns`` together.

    ``ops``: its operators in the graphs, each with how many. ``regions``: compile ids it is part of.
    """

    file: str
    line: int
    function: str
    code: str
    ns: int
    share: float
    forward_ns: int
    backward_ns: int
    ops: tuple[tuple[str, int], ...]
    modules: tuple[str, ...]
    regions: tuple[str, ...]


@dataclass(frozen=True)
class CompiledLines:
    """Both tables, the most expensive first. ``total_ns`` = ``shared_ns`` + ``unshared_ns`` (no graph known)."""

    regions: tuple[Region, ...]
    total_regions: int
    lines: tuple[CompiledLine, ...]
    total_lines: int
    total_ns: int
    shared_ns: int
    unshared_ns: int
    estimate: str
    time: str
    selection: Selection


@dataclass
class _Sum:
    ids: list[int] = field(default_factory=list)
    own: int = 0
    durations: list[int] = field(default_factory=list)
    owns: list[int] = field(default_factory=list)
    callers: dict[tuple[str, int, str], int] = field(default_factory=dict)
    compile_event: int = -1
    backward: int = 0
    backward_launches: int = 0


def compiled_lines(trace: Trace, period: str | Filter = "auto", *, selection: Selection | None = None) -> CompiledLines:
    """Regions and lines of the selection (``period`` as in ``select``)."""
    chosen = selection or select(trace, period)
    sums = _launches(trace, chosen)
    _add_backward(trace, chosen, sums)
    ranked = sorted(sums.items(), key=lambda item: (-item[1].own - item[1].backward, item[0]))
    details = _details(trace, [s.compile_event for _, s in ranked[:MOST_REGIONS]])
    regions = tuple(_region(key, s, details.get(s.compile_event)) for key, s in ranked[:MOST_REGIONS])
    total = sum(s.own + s.backward for s in sums.values())
    lines, shared = _lines(trace, ranked[:MOST_REGIONS], details)
    return CompiledLines(
        regions=regions,
        total_regions=len(ranked),
        lines=lines[:MOST_LINES],
        total_lines=len(lines),
        total_ns=total,
        shared_ns=shared,
        unshared_ns=total - shared,
        estimate=ESTIMATE,
        time=chosen.time.name,
        selection=chosen,
    )


def _launches(trace: Trace, selection: Selection) -> dict[tuple[int, str], _Sum]:
    table = trace.sql_arrow(
        'SELECT id, lane, "start", duration, process, compile_id, correlation, file, line, function FROM events '
        f"WHERE kind = 'launch' AND compile_id IS NOT NULL AND duration >= 0 AND {selection.where} "
        f'ORDER BY lane, "start", duration DESC LIMIT {MOST_LAUNCHES}'
    )
    sums: dict[tuple[int, str], _Sum] = {}
    if not table.num_rows:
        return sums
    lane, start, duration = (table.column(c).to_numpy() for c in ("lane", "start", "duration"))
    net = duration - _compiling(trace, selection, lane, start, duration)
    own = net - _nested(lane, start, duration, net)
    names = {
        c: table.column(c).to_pylist()
        for c in ("id", "process", "compile_id", "correlation", "file", "line", "function")
    }
    for n in range(table.num_rows):
        s = sums.setdefault((names["process"][n], names["compile_id"][n]), _Sum())
        s.owns.append(max(int(own[n]), 0))
        s.own += s.owns[-1]
        s.durations.append(int(duration[n]))
        if len(s.ids) < 50:
            s.ids.append(names["id"][n])
        caller = (names["file"][n] or "", names["line"][n] if names["file"][n] else -1, names["function"][n] or "")
        s.callers[caller] = s.callers.get(caller, 0) + 1
        if names["correlation"][n] >= 0:
            s.compile_event = names["correlation"][n]
    return sums


def _compiling(
    trace: Trace, selection: Selection, lane: np.ndarray, start: np.ndarray, duration: np.ndarray
) -> np.ndarray:
    """How much of each launch its thread spent compiling (a launch runs into code that is not compiled yet)."""
    table = lanes(trace.metadata)
    threads = {x["lane"]: x.get("os_thread") for x in table}
    taken = np.zeros(len(lane), np.int64)
    for number in np.unique(lane).tolist():
        mine = [
            x["lane"]
            for x in table
            if x.get("kind") == "compile"
            and selection.owns(x)
            and x.get("os_thread") == threads.get(number)
        ]
        if not mine:
            continue
        rows = trace.sql_arrow(
            f'SELECT "start", duration FROM events WHERE lane IN ({", ".join(map(str, mine))}) AND depth = 0 '
            'AND duration > 0 ORDER BY "start"'
        )
        begins, lengths = rows.column(0).to_numpy(), rows.column(1).to_numpy()
        if len(begins):
            here = lane == number
            before = _spent(begins, lengths, start[here])
            taken[here] = _spent(begins, lengths, start[here] + duration[here]) - before
    return taken


def _spent(begins: np.ndarray, lengths: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Length of disjoint, sorted intervals before each moment."""
    sums = np.concatenate(([0], np.cumsum(lengths)))
    index = np.searchsorted(begins, at, "right")
    last = np.maximum(index - 1, 0)
    over = np.where(index > 0, np.maximum(begins[last] + lengths[last] - at, 0), 0)
    return sums[index] - np.minimum(over, lengths[last])


def _nested(lane: np.ndarray, start: np.ndarray, duration: np.ndarray, net: np.ndarray) -> np.ndarray:
    """For each launch the time of the launches directly inside it; sorted by lane and start, longest first."""
    inside = np.zeros(len(lane), np.int64)
    stop = start + duration
    stack: list[int] = []
    for n in range(len(lane)):
        while stack and (lane[stack[-1]] != lane[n] or stop[stack[-1]] <= start[n]):
            stack.pop()
        if stack:
            inside[stack[-1]] += net[n]
        stack.append(n)
    return inside


def _add_backward(trace: Trace, selection: Selection, sums: dict[tuple[int, str], _Sum]) -> None:
    """The compiled backward of a region: its forward op is inside the region's launch."""
    if not sums:
        return
    table = trace.sql_arrow(
        'SELECT b.lane AS lane, b."start" AS "start", b.duration AS duration, l.process AS process, '
        'l.compile_id AS compile_id FROM (SELECT correlation, lane, "start", duration FROM events '
        "WHERE name = 'CompiledFunctionBackward' AND kind = 'autograd' AND duration >= 0 AND correlation >= 0 "
        f"AND {selection.where}) b "
        "JOIN (SELECT id, parent FROM events WHERE name = 'CompiledFunction') f ON f.id = b.correlation "
        "JOIN (SELECT id, process, compile_id FROM events WHERE kind = 'launch') l ON l.id = f.parent"
    )
    if not table.num_rows:
        return
    lane, start, duration = (table.column(c).to_numpy() for c in ("lane", "start", "duration"))
    net = duration - _compiling(trace, selection, lane, start, duration)
    keys = zip(table.column("process").to_pylist(), table.column("compile_id").to_pylist(), strict=True)
    for key, ns in zip(keys, net.tolist(), strict=True):
        s = sums.get(key)
        if s is not None:
            s.backward += max(ns, 0)
            s.backward_launches += 1


def _details(trace: Trace, ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    wanted = sorted({i for i in ids if i >= 0})
    found: dict[int, dict[str, Any]] = {}
    for some in _batches(trace, wanted):
        table = trace.sql_arrow(
            f"SELECT id, name, file, line, function, detail FROM events WHERE kind = 'compile' AND id IN ({some})"
        ).to_pylist()
        for row in table:
            found[row["id"]] = {**row, "detail": _only(detail_of(row["detail"]))}
    return found


_BATCH: Final = 32 << 20


def _batches(trace: Trace, ids: list[int]) -> Iterator[str]:
    """The ids as SQL, so many at once as have details of 32 M characters: a graph can be megabytes of text."""
    if not ids:
        return
    lengths = trace.sql_arrow(
        "SELECT id, CAST(coalesce(length(detail), 0) AS BIGINT) AS n FROM events "
        f"WHERE kind = 'compile' AND id IN ({', '.join(map(str, ids))}) ORDER BY id"
    )
    batch: list[str] = []
    total = 0
    for number, length in zip(lengths.column("id").to_pylist(), lengths.column("n").to_pylist(), strict=True):
        if batch and total + length > _BATCH:
            yield ", ".join(batch)
            batch, total = [], 0
        batch.append(str(number))
        total += length
    if batch:
        yield ", ".join(batch)


def _only(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {key: detail[key] for key in ("graph", "graph_ops", "backend") if key in detail}


def _region(key: tuple[int, str], s: _Sum, row: Mapping[str, Any] | None) -> Region:
    caller = _caller(s)
    detail = row["detail"] if row else {}
    ops = detail.get("graph_ops")
    return Region(
        key[0],
        key[1],
        user_function(row["function"] or row["name"] or "") if row else "",
        (row["file"] or "") if row else "",
        row["line"] if row and row["file"] else -1,
        *caller,
        launches=len(s.durations),
        total_ns=sum(s.durations),
        own_ns=s.own,
        backward_launches=s.backward_launches,
        backward_ns=s.backward,
        median_ns=int(np.median(s.owns)),
        compile_event=s.compile_event,
        backend=detail["backend"] if isinstance(detail.get("backend"), str) else "",
        graph_ops=ops if isinstance(ops, int) and not isinstance(ops, bool) else -1,
        events=tuple(s.ids),
    )


def _caller(s: _Sum) -> tuple[str, int, str]:
    return max(s.callers.items(), key=lambda item: (item[1], item[0]))[0]


# --- sharing


@dataclass
class _LineSum:
    forward: float = 0.0
    backward: float = 0.0
    ops: dict[str, int] = field(default_factory=dict)
    modules: dict[str, None] = field(default_factory=dict)
    regions: dict[str, None] = field(default_factory=dict)
    function: str = ""


def _lines(
    trace: Trace, ranked: list[tuple[tuple[int, str], _Sum]], details: Mapping[int, Mapping[str, Any]]
) -> tuple[tuple[CompiledLine, ...], int]:
    sums: dict[tuple[str, int], _LineSum] = {}
    shared = 0
    for (_, compile_id), s in ranked:
        row = details.get(s.compile_event)
        nodes = row["detail"].get("graph") if row else None
        nodes = [n for n in nodes if isinstance(n, dict)] if isinstance(nodes, list) else []
        if not nodes:
            continue
        weights = node_weights(nodes)
        whole = sum(weights)
        caller = _caller(s)
        shared += s.own + s.backward
        for node, weight in zip(nodes, weights, strict=True):
            file, line = node.get("file"), node.get("line")
            known = isinstance(file, str) and file and isinstance(line, int)
            # What has no line of its own (a module of torch's) is on the line that calls the region.
            entry = sums.setdefault((file, line) if known else caller[:2], _LineSum())
            entry.forward += s.own * weight / whole
            entry.backward += s.backward * weight / whole
            name = str(node.get("op") or "")[:80]
            entry.ops[name] = entry.ops.get(name, 0) + 1
            entry.function = entry.function or user_function(str(node.get("function") or ""))
            entry.regions.setdefault(compile_id)
            if node.get("module"):
                entry.modules.setdefault(str(node["module"])[:120])
    rows = []
    for (file, line), entry in sums.items():
        forward, backward = round(entry.forward), round(entry.backward)
        rows.append(
            CompiledLine(
                file,
                line,
                entry.function,
                code_at(trace, file, line) if len(rows) < MOST_LINES else "",
                forward + backward,
                (forward + backward) / shared if shared else 0.0,
                forward,
                backward,
                tuple(sorted(entry.ops.items(), key=lambda item: (-item[1], item[0]))[:20]),
                tuple(entry.modules)[:20],
                tuple(entry.regions)[:50],
            )
        )
    return tuple(sorted(rows, key=lambda r: (-r.ns, r.file, r.line))), shared


def node_weights(nodes: Iterable[Mapping[str, Any]]) -> list[float]:
    """A positive weight for each node: the time a roofline gives it, in seconds.

    What has no model is weighed by the bytes it is given; what computes nothing (views) by nothing,
    unless all of the graph computes nothing: then all are equal.
    """
    weights = [_weight(node) for node in nodes]
    if not any(w > 0 for w in weights):
        return [1.0] * len(weights)
    return weights


def _weight(node: Mapping[str, Any]) -> float:
    op, shapes, dtypes = str(node.get("op") or ""), node.get("shapes"), node.get("dtypes")
    if not isinstance(shapes, str) or not isinstance(dtypes, str):
        return 0.0
    known = _known_weight if len(op) + len(shapes) + len(dtypes) <= _KNOWN else _known_weight.__wrapped__
    return known(op, shapes, dtypes)


_KNOWN: Final = 1_000


@lru_cache(maxsize=4096)
def _known_weight(op: str, shapes: str, dtypes: str) -> float:
    """The graphs of a function that was compiled again are the same for the most part."""
    name = aten_name(op)
    if not name or moves_nothing(name):
        return 0.0
    cost = cost_of(name, shapes, dtypes)
    chip = CHIPS[CHIP]
    cores = int(chip.cores_per_device.value)
    if cost is None:
        return _given_bytes(shapes, dtypes) / chip.bandwidth(cores)
    rate = matrix_rate(cost, chip, cores)[0] if cost.unit == MATRIX else chip.elementwise_peak(cores)
    size = cost.bytes_read(narrowed=True) + cost.bytes_written(narrowed=True)
    return max(size / chip.bandwidth(cores), cost.flops / rate)


def _given_bytes(shapes: str, dtypes: str) -> int:
    signature = parse(shapes, dtypes, None)
    tensors: list[Tensor] = []
    for argument in signature.arguments if signature else ():
        tensors += [argument] if isinstance(argument, Tensor) else []
        tensors += list(argument.tensors) if isinstance(argument, TensorList) else []
    moved = tuple((t.dtype, t.elements) for t in tensors)
    return Cost(0, "elementwise", "", moved, moved[:1]).bytes_read(narrowed=True)


_NAMES: Final = {
    "truediv": "div",
    "floordiv": "floor_divide",
    "iadd": "add_",
    "isub": "sub_",
    "imul": "mul_",
    "itruediv": "div_",
    "matmul": "matmul",
    "imatmul": "matmul",
    "getitem": "select",
    "setitem": "copy_",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
    "pos": "positive",
    "mod": "remainder",
    "scaled_dot_product_attention": "scaled_dot_product_attention",
    "size": "size",
    "getattr": "size",
}


def aten_name(op: str) -> str:
    """The operator of a graph's node: ``torch._C._nn.linear`` and ``mul`` are ``aten::linear`` and ``aten::mul``."""
    if "::" in op:
        return op
    parts = op.split(".")
    if op.startswith(("aten.", "prims.")) and len(parts) > 1:
        return f"aten::{parts[1]}" + (f".{parts[2]}" if len(parts) > 2 and parts[2] != "default" else "")
    last = parts[-1]
    return f"aten::{_NAMES.get(last, last)}" if last else ""
