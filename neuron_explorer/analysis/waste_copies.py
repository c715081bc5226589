"""Copies that undo one another, and copies for the sake of a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis.flops import cost_of
from neuron_explorer.analysis.marks import kinds_of
from neuron_explorer.analysis.scan import operator_names
from neuron_explorer.analysis.selection import Selection
from neuron_explorer.analysis.waste_inputs import cast_of, storages
from neuron_explorer.analysis.wasted import Wasted, wasted

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

_LAYOUT: Final = ("aten::contiguous", "aten::reshape", "aten::flatten.using_ints", "aten::_reshape_copy")
_CAST: Final = "aten::_to_copy"
_CLONE: Final = "aten::clone"
_WHAT: Final = (
    "name, file, CASE WHEN file IS NULL THEN -1 ELSE line END AS line, function, duration, id, step, start"
)


def copies(trace: Trace, selection: Selection) -> list[Wasted]:
    """Round trips between dtypes and between devices, and copies of layout."""
    return [*_round_trips(trace, selection), *_ping_pong(trace, selection), *_layout(trace, selection)]


def _layout(trace: Trace, selection: Selection) -> list[Wasted]:
    if not (known := operator_names(trace)).intersection(_LAYOUT) or _CLONE not in known:
        return []
    names = ", ".join(f"'{name}'" for name in _LAYOUT)
    rows = trace.sql_arrow(
        "SELECT outer_.name AS name, outer_.file AS file, outer_.line AS line, min(outer_.function) AS function, "
        "inner_.shapes AS shapes, inner_.dtypes AS dtypes, inner_.arguments AS arguments, count(*) AS n, "
        "CAST(sum(inner_.duration) AS BIGINT) AS ns, min(inner_.id) AS example "
        f"FROM (SELECT * FROM events WHERE {selection.where} AND kind = 'op' AND name = '{_CLONE}' "
        f"AND duration >= 0) AS inner_ JOIN (SELECT * FROM events WHERE {selection.where} AND kind = 'op' "
        f"AND name IN ({names})) AS outer_ ON inner_.parent = outer_.id GROUP BY 1, 2, 3, 5, 6, 7"
    ).to_pylist()
    return wasted("layout_copy", _by_line(rows), selection, "the strides did not fit: the contents were copied")


def _by_line(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one line and operator together, with the bytes of their copies."""
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        cost = cost_of("aten::clone", row["shapes"], row["dtypes"], row["arguments"])
        size = None if cost is None else (cost.bytes_read() + cost.bytes_written()) * row["n"]
        known = sums.setdefault((row["file"], row["line"], row["name"]), {**row, "n": 0, "ns": 0, "bytes": 0})
        known["n"] += row["n"]
        known["ns"] += row["ns"]
        known["bytes"] = None if size is None or known["bytes"] is None else known["bytes"] + size
    return list(sums.values())


def _round_trips(trace: Trace, selection: Selection) -> list[Wasted]:
    """Casts there and back. The inner ``copy_`` names the result's storage where tensors were recorded."""
    if _CAST not in operator_names(trace):
        return []
    rows = trace.sql_arrow(
        f"SELECT {_WHAT}, parent, shapes, dtypes, detail FROM events WHERE {selection.where} AND step >= 0 "
        f"AND kind IN ('op', 'copy') AND duration >= 0 AND (name = '{_CAST}' OR (name = 'aten::copy_' AND parent IN "
        f"(SELECT id FROM events WHERE {selection.where} AND name = '{_CAST}'))) ORDER BY start LIMIT 4000000"
    )
    if not rows.num_rows:
        return []
    outer: dict[int, dict[str, Any]] = {}
    made: dict[tuple[int, int], tuple[str, str, dict[str, Any]]] = {}  # (step, storage) → dtypes, the cast
    loose: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    backs: list[dict[str, Any]] = []
    for row in rows.to_pylist():
        if row["name"] == _CAST:
            outer[row["id"]] = row
            continue
        cast = outer.get(row["parent"])
        kinds = cast_of(row["dtypes"])
        if cast is None or kinds is None or kinds[0] == kinds[1]:
            continue
        to, source = kinds
        stored = storages(row["detail"])
        if len(stored) < 2:
            loose.setdefault((row["step"], row["shapes"], source, to), []).append(cast)
            continue
        before = made.pop((row["step"], stored[1]), None)
        if before is not None and before[:2] == (to, source):
            backs += [{**before[2], "exact": True}, {**cast, "exact": True}]
        made[row["step"], stored[0]] = (source, to, cast)
    for (step, shapes, source, to), there in loose.items():
        back = loose.get((step, shapes, to, source), [])
        for one, other in zip(there, back, strict=False):
            if one["start"] < other["start"]:
                backs += [{**one, "exact": False}, {**other, "exact": False}]
    return _grouped(
        "dtype_round_trip", backs, selection, "the result of a cast is cast back",
        "as many casts of this shape in one direction as back, later in the same step",
    )  # fmt: skip


def _ping_pong(trace: Trace, selection: Selection) -> list[Wasted]:
    if "copy" not in kinds_of(trace):
        return []
    rows = trace.sql_arrow(
        f"SELECT {_WHAT}, shapes, json_extract_string(detail, '$.direction') AS direction, "
        "TRY_CAST(json_extract_string(detail, '$.bytes') AS BIGINT) AS bytes "
        f"FROM events WHERE {selection.where} AND step >= 0 AND kind = 'copy' AND duration >= 0 "
        "AND json_valid(detail) ORDER BY start LIMIT 4000000"
    ).to_pylist()
    away: dict[tuple[int, int], list[dict[str, Any]]] = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        if not row["bytes"]:
            continue
        key = (row["step"], row["bytes"])
        if row["direction"] == "device_to_host":
            away.setdefault(key, []).append(row)
        elif row["direction"] == "host_to_device" and away.get(key):
            found += [{**away[key].pop(), "exact": False}, {**row, "exact": False}]
    return _grouped(
        "ping_pong", found, selection, "",
        "as many bytes come back as went to the host earlier in the step; they may be of another tensor",
    )  # fmt: skip


def _grouped(
    kind: str, events: list[dict[str, Any]], selection: Selection, exact: str, likely: str
) -> list[Wasted]:
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in events:
        key = (event["file"], event["line"], event["name"], event["exact"])
        known = sums.setdefault(
            key,
            {**event, "n": 0, "ns": 0, "example": event["id"], "bytes": 0 if event.get("bytes") else None,
             "certainty": "exact" if event["exact"] else "likely", "detail": exact if event["exact"] else likely},
        )  # fmt: skip
        known["n"] += 1
        known["ns"] += event["duration"]
        if known["bytes"] is not None:
            known["bytes"] += event.get("bytes") or 0
    return wasted(kind, sums.values(), selection, likely)
