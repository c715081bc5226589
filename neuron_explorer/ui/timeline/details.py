"""Everything about one event, for the panel beside the timeline: plain data, no markup."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.kernels import kernel_of
from neuron_explorer.trace.schema import ATTRIBUTIONS
from neuron_explorer.ui.timeline.compilation import compilation, compiled_by, launches
from neuron_explorer.ui.timeline.events import brief, find, starting_at, step_from
from neuron_explorer.ui.timeline.index import Index
from neuron_explorer.ui.timeline.work import device_time, has_device, work_of

if TYPE_CHECKING:
    import pyarrow as pa

    from neuron_explorer.trace.store import Trace

CONTEXT_LINES: Final = 4
MAX_FRAMES: Final = 200
MAX_CHILDREN: Final = 6
MAX_LINKS: Final = 6
MAX_LAUNCHES: Final = 3
MAX_TEXT: Final = 20_000
_COLUMNS: Final = (
    "kind", "name", "start", "duration", "self", "id", "parent", "depth", "lane", "process", "thread",
    "device", "stream", "stack", "file", "line", "function", "attribution", "module", "phase", "period",
    "step", "sequence", "shapes", "strides", "dtypes", "arguments", "bytes_read", "bytes_written",
    "flops", "correlation", "compile_id", "detail",
)  # fmt: skip
_SHORT: Final = "id, parent, name, kind, start, duration, lane, depth"


def event_details(index: Index, trace: Trace, row: int) -> dict[str, Any] | None:
    """What is known of the event in file row ``row``; None where that is no drawn event.

    Times are ns; ids are text (they may pass what a JavaScript number holds).
    """
    place = _start_and_id(trace, row)
    if place is None:
        return None
    start, identity = place
    found = _rows(
        trace, f'SELECT {_quoted(_COLUMNS)} FROM events WHERE "start" = ? AND id = ? LIMIT 1', start, identity
    )
    if not found:
        return None
    event = found[0]
    own = _placed(index, event, row)
    if own is None:
        return None
    compiled = compilation(trace, event)
    made = compiled_by(trace, event) if compiled is not None else -1
    return {
        **own,
        **{c: event[c] for c in ("kind", "module", "phase", "period", "function", "device", "compile_id")},
        "name": _cut(event["name"]),
        "id": str(identity),
        "duration": event["duration"],
        "self": event["self"],
        "step": event["step"],
        "file": event["file"],
        "line": event["line"],
        "attribution": _attribution(event["attribution"]) if compiled is None else None,
        "lane": _lane(index, own["track"]),
        "facts": _facts(event, with_detail=not (compiled or {}).keys() - {"note"}),
        "compilation": compiled,
        "launches": launches(trace, made) if made >= 0 else None,
        "tensors": _tensors(event),
        "work": work_of(event),
        "on_device": device_time(trace, event),
        "stack": _stack(trace, event["stack"]),
        "source": source_context(trace, event["file"], event["line"]),
        "kernel": _kernel(trace, event["detail"]),
        "parent": _parent(index, trace, event, own),
        "children": _children(index, trace, event, own["end"]),
        "links": _links(index, trace, event, made),
        "same_line": _same_line(trace, event),
    }


def row_of_id(index: Index, trace: Trace, identity: int) -> int | None:
    """File row of the event with this id."""
    found = _rows(trace, f"SELECT {_SHORT} FROM events WHERE id = ? LIMIT 1", identity)
    placed = _brief(index, trace, found[0]) if found else None
    return None if placed is None else placed["row"]


def source_context(trace: Trace, file: str | None, line: int, around: int = CONTEXT_LINES) -> dict[str, Any] | None:
    """The lines around ``line`` of a file whose text the trace carries; None without a line."""
    if not file or line < 1:
        return None
    text = trace.source(file)
    if text is None:
        return {"lines": None, "reason": "The trace does not carry the text of this file."}
    rows = text.splitlines()
    if line > len(rows):
        return {"lines": None, "reason": f"The text in the trace has only {len(rows)} lines."}
    first = max(1, line - around)
    return {"first": first, "lines": [r[:400] for r in rows[first - 1 : line + around]], "reason": ""}


def _start_and_id(trace: Trace, row: int) -> tuple[int, int] | None:
    """Start and id of a file row, read from its row group alone."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(trace.path) as file:
        footer = file.metadata
        ends = list(accumulate(footer.row_group(g).num_rows for g in range(footer.num_row_groups)))
        group = bisect_right(ends, row)
        if row < 0 or group >= len(ends):
            return None
        offset = row - (ends[group - 1] if group else 0)
        table = file.read_row_group(group, columns=["start", "id"])
    start, identity = table["start"][offset].as_py(), table["id"][offset].as_py()
    return (start, identity) if start is not None and start >= 0 and identity is not None else None


def _rows(trace: Trace, statement: str, *params: Any) -> list[dict[str, Any]]:
    table: pa.Table = trace.sql_arrow(statement, params)
    return table.to_pylist()


def _quoted(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _placed(index: Index, event: dict[str, Any], row: int) -> dict[str, Any] | None:
    for track, position in starting_at(index, event["lane"], min(event["depth"], 65535), event["start"]):
        if int(index.column("row")[position]) == row:
            return brief(index, track, position)
    return None


def _brief(index: Index, trace: Trace, event: dict[str, Any]) -> dict[str, Any] | None:
    """The brief of an event that a query found (its file row is not known to the query)."""
    places = starting_at(index, event["lane"], min(event["depth"], 65535), event["start"])
    for track, position in places:
        row = int(index.column("row")[position])
        if len(places) == 1 or _start_and_id(trace, row) == (event["start"], event["id"]):
            return {**brief(index, track, position), "duration": event["duration"], "kind": event["kind"]}
    return None


def _parent(index: Index, trace: Trace, event: dict[str, Any], own: dict[str, Any]) -> dict[str, Any] | None:
    if event["parent"] < 0:
        return None
    position = find(index, own["track"], own["start"], own["row"])
    near = None if position is None else step_from(index, own["track"], position, "parent")
    if near is not None:
        # The event around this one is its parent, except where operations overlap.
        place = _start_and_id(trace, near["row"])
        if place is not None and place[1] == event["parent"]:
            return near
    for row in _rows(
        trace, f'SELECT {_SHORT} FROM events WHERE id = ? AND "start" <= ? LIMIT 1', event["parent"], event["start"]
    ):
        return _brief(index, trace, row)
    return None


def _children(index: Index, trace: Trace, event: dict[str, Any], end: int) -> dict[str, Any]:
    found = _rows(
        trace,
        f'SELECT {_SHORT}, count(*) OVER () AS n, sum(greatest(duration, 0)) OVER () AS total FROM events '
        'WHERE parent = ? AND "start" BETWEEN ? AND ? ORDER BY duration DESC, "start" LIMIT ?',
        event["id"], event["start"], end, MAX_CHILDREN,
    )  # fmt: skip
    top = [b for b in (_brief(index, trace, row) for row in found) if b is not None]
    return {
        "count": found[0]["n"] if found else 0,
        "total": int(found[0]["total"]) if found else 0,
        "longest": top,
    }


def _links(index: Index, trace: Trace, event: dict[str, Any], compiled: int) -> list[dict[str, Any]]:
    """Forward ↔ backward, launch ↔ device, launch ↔ compilation (``compiled``: the id of what was compiled)."""
    links: list[dict[str, Any]] = []

    def add(label: str, rows: list[dict[str, Any]]) -> None:
        known = {row["id"] for row in rows}
        for row in rows:
            if row["parent"] in known:
                continue  # a node inside the engine's own event for it
            placed = _brief(index, trace, row)
            if placed is not None:
                links.append({**placed, "label": label, "after": row["start"] - event["start"]})

    correlation = event["correlation"]
    select = f"SELECT {_SHORT} FROM events WHERE"
    if event["kind"] == "launch":
        if correlation >= 0:
            add("compilation", _rows(trace, f"{select} id = ? LIMIT 1", correlation))
        add("device execution", _rows(
            trace, f"{select} correlation = ? AND kind IN ('device', 'link') ORDER BY \"start\" LIMIT {MAX_LINKS}",
            event["id"],
        ))  # fmt: skip
    elif event["kind"] in ("device", "copy", "collective"):
        if correlation >= 0:
            add("launch", _rows(trace, f"{select} id = ? LIMIT 1", correlation))
        elif event["kind"] == "device":  # one execution of several operators: their shares name them
            add("launch", _rows(
                trace,
                f"{select} id IN (SELECT correlation FROM events WHERE kind = 'link' AND parent = ?) "
                f'ORDER BY "start" LIMIT {MAX_LINKS}',
                event["id"],
            ))  # fmt: skip
    elif compiled >= 0:
        add("launch", _rows(
            trace, f"{select} kind = 'launch' AND correlation = ? ORDER BY \"start\" LIMIT {MAX_LAUNCHES}", compiled
        ))  # fmt: skip
    elif correlation >= 0:
        add("forward", _rows(trace, f"{select} id = ? LIMIT 1", correlation))
    if event["kind"] in ("op", "fallback") and has_device(trace):
        add("device execution", _rows(
            trace, f"{select} correlation = ? AND kind = 'device' ORDER BY \"start\" LIMIT {MAX_LINKS}", event["id"]
        ))  # fmt: skip
        add("device execution of several", _rows(
            trace,
            f"{select} id IN (SELECT parent FROM events WHERE kind = 'link' AND correlation = ?) "
            f'ORDER BY "start" LIMIT {MAX_LINKS}',
            event["id"],
        ))  # fmt: skip
    if event["kind"] == "op" and event["phase"] in ("forward", "recompute", "other", None):
        add("backward", _rows(
            trace,
            f"{select} correlation = ? AND \"start\" >= ? AND kind IN ('autograd', 'op') "
            f'ORDER BY "start" LIMIT {MAX_LINKS}',
            event["id"], event["start"],
        ))  # fmt: skip
    return links


def _same_line(trace: Trace, event: dict[str, Any]) -> dict[str, Any] | None:
    if not event["file"] or event["line"] < 0:
        return None
    statement = (
        "SELECT count(*) AS n, coalesce(sum(greatest(duration, 0)) FILTER (outermost_on_line), 0) AS total "
        "FROM events WHERE file = ? AND line = ?"
    )
    params = [event["file"], event["line"]]
    if event["step"] >= 0:
        statement, params = statement + " AND step = ?", [*params, event["step"]]
    found = _rows(trace, statement, *params)[0]
    return {"count": found["n"], "total": int(found["total"]), "in_step": event["step"] >= 0}


def _attribution(key: str | None) -> dict[str, str] | None:
    return {"key": key, "text": ATTRIBUTIONS.get(key, key)[:500]} if key else None


def _lane(index: Index, track: int) -> dict[str, Any]:
    number, depth, _ = index.track(track)
    lane = index.lanes[number]
    return {
        "name": lane["name"],
        "process": lane["process"],
        "process_name": lane["process_name"],
        "depth": depth,
    }


def _facts(event: dict[str, Any], with_detail: bool) -> list[list[str]]:
    """Further columns that have something to say, as (label, text)."""
    facts = []
    for label, column, unit in (
        ("device", "device", ""), ("stream", "stream", ""), ("autograd sequence", "sequence", ""),
        ("bytes read", "bytes_read", " B"), ("bytes written", "bytes_written", " B"), ("FLOPs", "flops", ""),
        ("compile id", "compile_id", ""),
    ):  # fmt: skip
        value = event[column]
        if value is not None and value != -1:
            facts.append([label, f"{value:,}{unit}" if unit or column == "flops" else str(value)])
    return facts + ([[k, v] for k, v in _detail(event["detail"]) if k != "phase"] if with_detail else [])


def _detail(text: str | None) -> list[tuple[str, str]]:
    try:
        document = json.loads(text) if text and len(text) <= MAX_TEXT else {}
    except (ValueError, RecursionError):
        return []
    if not isinstance(document, dict):
        return []
    known = [(k, v) for k, v in document.items() if k != "kernel" or kernel_of(text) is None]
    return [(str(k)[:100].replace("_", " "), _plain(v)) for k, v in known[:20]]


def _kernel(trace: Trace, detail: str | None) -> dict[str, Any] | None:
    """The kernel of a custom operator and the lines around its definition."""
    kernel = kernel_of(detail)
    if kernel is None:
        return None
    return {
        "function": kernel.function,
        "file": kernel.file,
        "line": kernel.line,
        "source": source_context(trace, kernel.file, kernel.line),
    }


def _plain(value: Any) -> str:
    return value[:1000] if isinstance(value, str) else json.dumps(value)[:1000]


def _tensors(event: dict[str, Any]) -> list[dict[str, str]]:
    """Operator arguments in order: shape, dtype, strides, or the value of what is no tensor."""
    columns = {}
    for column in ("shapes", "dtypes", "strides", "arguments"):
        try:
            text = event[column]
            loaded = json.loads(text) if text and len(text) <= MAX_TEXT else []
        except (ValueError, RecursionError):
            loaded = []
        columns[column] = loaded if isinstance(loaded, list) else []
    rows = []
    for i in range(min(64, max(len(v) for v in columns.values()))):
        shape, dtype, strides, value = (v[i] if i < len(v) else None for v in columns.values())
        if shape is None and value is None:
            continue
        rows.append({"shape": _compact(shape), "dtype": _compact(dtype), "strides": _compact(strides),
                     "value": _compact(value)})  # fmt: skip
    return rows


def _compact(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:500]
    return re.sub(r'"', "", json.dumps(value))[:500]


def _stack(trace: Trace, frame: int) -> dict[str, Any]:
    if frame < 0:
        return {"frames": [], "more": 0}
    frames = trace.stack(frame)
    shown = [
        {"file": _cut(f.file), "line": f.line, "function": _cut(f.function), "user": f.user}
        for f in frames[:MAX_FRAMES]
    ]
    return {"frames": shown, "more": max(0, len(frames) - MAX_FRAMES)}


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= 5000 else text[:5000] + " …"


def located(index: Index, track: int, start: int, row: int) -> int | None:
    """Base position of an event that a client names; None where there is none."""
    return find(index, track, start, row) if 0 <= track < index.track_count else None
