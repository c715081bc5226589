"""What must hold in every trace, whatever was recorded. Each check returns sentences on what is wrong."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

from trace_rows import Row, Rows

from neuron_explorer.trace.schema import ATTRIBUTIONS, KINDS, PERIODS, PHASES

WITH_LINE = {"stack", "inherited", "compiled_graph", "forward", "backward_call", "library_frame", "definition"}
WITHOUT_LINE = set(ATTRIBUTIONS) - WITH_LINE
HOST = ("op", "autograd", "launch")
TIMED = (*HOST, "copy", "sync", "fallback")  # what the host does for a device is counted with its operators


def broken(trace: Rows) -> list[str]:
    """All checks; an empty list for a sound trace."""
    found: list[str] = []
    for check in (
        vocabulary, identity, nesting, self_times, order, attribution, outermost, text_columns, lanes, steps,
        counts, joins, frames,
    ):  # fmt: skip
        problems = check(trace)
        found += [f"{check.__name__}: {p}" for p in problems[:5]]
        if len(problems) > 5:
            found.append(f"{check.__name__}: and {len(problems) - 5} more")
    return found


def _say(row: Row) -> str:
    return f"{row['kind']} {row['name']!r} id {row['id']} at {row['start']}+{row['duration']}"


def vocabulary(t: Rows) -> list[str]:
    out = [f"kind of {_say(r)}" for r in t.all if r["kind"] not in KINDS]
    for row in t.events:
        if row["phase"] is not None and row["phase"] not in PHASES:
            out.append(f"phase {row['phase']!r} of {_say(row)}")
        if row["period"] is not None and row["period"] not in PERIODS:
            out.append(f"period {row['period']!r} of {_say(row)}")
        if row["kind"] in HOST and row["phase"] is None:
            out.append(f"no phase: {_say(row)}")
        if not row["name"]:
            out.append(f"no name: {_say(row)}")
    return out


def identity(t: Rows) -> list[str]:
    out = []
    frame_ids = [r["id"] for r in t.all if r["kind"] == "frame"]
    for what, ids in (("event", [r["id"] for r in t.events]), ("frame", frame_ids)):
        out += [f"{what} id {i} occurs {n} times" for i, n in Counter(ids).items() if n > 1]
    out += [f"negative id: {_say(r)}" for r in t.events if r["id"] < 0]
    return out


def nesting(t: Rows) -> list[str]:
    """A parent exists, is on the same lane, one level up, and holds its child unless it ended early."""
    out = []
    for row in t.events:
        if row["parent"] < 0:
            if row["depth"] != 0:
                out.append(f"depth {row['depth']} at the top: {_say(row)}")
            continue
        parent = t.by_id.get(row["parent"])
        if parent is None:
            out.append(f"parent {row['parent']} is missing: {_say(row)}")
            continue
        if parent["lane"] != row["lane"]:
            out.append(f"parent on another lane: {_say(row)} in {_say(parent)}")
        if row["depth"] != parent["depth"] + 1:
            out.append(f"depth {row['depth']} in depth {parent['depth']}: {_say(row)}")
        if parent["start"] > row["start"]:
            out.append(f"starts before its parent: {_say(row)} in {_say(parent)}")
        if min(parent["duration"], row["duration"]) >= 0:
            over = row["start"] + row["duration"] - parent["start"] - parent["duration"]
            if over > 0:
                out.append(f"ends {over} ns after its parent: {_say(row)} in {_say(parent)}")
    return out


def self_times(t: Rows) -> list[str]:
    """Self times are not negative, and those below a root sum up to the root's duration."""
    out = []
    total: dict[int, int] = {}
    for row in sorted(t.events, key=lambda r: -r["depth"]):
        own, duration = row["self"], row["duration"]
        if duration < 0 or (own < 0 and row["kind"] not in HOST):
            continue  # not known, as the schema allows
        if not 0 <= own <= duration:
            out.append(f"self {own}: {_say(row)}")
        below = sum(total.get(c["id"], 0) for c in t.children.get(row["id"], ()))
        total[row["id"]] = own + below
        if own + below != duration:
            out.append(f"self {own} and {below} below make not {duration}: {_say(row)}")
    return out


def order(t: Rows) -> list[str]:
    starts = [r["start"] for r in t.events]
    out = ["rows are not sorted by start"] if starts != sorted(starts) else []
    kinds = [r["kind"] in ("frame", "source") for r in t.all]
    if kinds != sorted(kinds, reverse=True):
        out.append("frame and source rows do not stand first")
    out += [f"starts before the trace: {_say(r)}" for r in t.events if r["start"] < 0]
    end = t.metadata["duration_ns"]
    out += [f"ends after the trace's {end}: {_say(r)}" for r in t.events if r["start"] + max(r["duration"], 0) > end]
    return out


def attribution(t: Rows) -> list[str]:
    """A line, or the reason why there is none; and the file's totals say the same."""
    out = []
    for row in t.events:
        if row["kind"] not in HOST:
            continue
        says = row["attribution"]
        has_line = row["line"] > 0 and bool(row["file"])
        if says in WITH_LINE and not has_line:
            out.append(f"{says} without a line: {_say(row)}")
        elif says in WITHOUT_LINE and (row["line"] != -1 or row["file"] is not None):
            out.append(f"{says} with line {row['file']}:{row['line']}: {_say(row)}")
        elif says not in ATTRIBUTIONS:
            out.append(f"attribution {says!r}: {_say(row)}")
        if has_line and not row["function"]:
            out.append(f"a line without a function: {_say(row)}")
        if says in ("stack", "inherited") and has_line and row["stack"] >= 0:
            here = t.stack(row["stack"])
            if (row["file"], row["line"]) not in {(f, n) for f, n, _ in here}:
                out.append(f"{row['file']}:{row['line']} is not in its own stack: {_say(row)}")
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in t.events:
        if row["kind"] in TIMED:
            totals[row["attribution"]][0] += 1
            totals[row["attribution"]][1] += max(row["self"], 0)
    said = t.metadata["attribution"]["by_attribution"]
    claimed = {k: [v["events"], v["self_ns"]] for k, v in said.items() if v["events"]}
    if claimed != dict(totals):
        out.append(f"the metadata counts {claimed}, the rows {dict(totals)}")
    return out


def outermost(t: Rows) -> list[str]:
    """outermost_on_line is false exactly where an enclosing event has the same file and line."""
    out = []
    for row in t.events:
        if row["line"] < 0:
            continue
        inside = any((a["file"], a["line"]) == (row["file"], row["line"]) for a in t.ancestors(row))
        if row["outermost_on_line"] == inside:
            out.append(f"outermost_on_line is {row['outermost_on_line']}: {_say(row)}")
    return out


def text_columns(t: Rows) -> list[str]:
    out = []
    for row in t.events:
        lengths = set()
        for column in ("shapes", "strides", "dtypes", "arguments"):
            if row[column] is None:
                continue
            try:
                value = json.loads(row[column])
            except ValueError:
                out.append(f"{column} is no JSON: {row[column]!r}")
                continue
            if not isinstance(value, list):
                out.append(f"{column} is no list: {row[column]!r}")
            lengths.add(len(value))
        if len(lengths) > 1:
            out.append(f"shapes, strides, dtypes and arguments differ in length: {_say(row)}")
        if row["detail"] is not None and not isinstance(json.loads(row["detail"]), dict):
            out.append(f"detail is no object: {row['detail']!r}")
    return out


def lanes(t: Rows) -> list[str]:
    """Every row's lane exists, and inside one lane and depth nothing overlaps."""
    known = {x["lane"]: x for x in t.metadata["lanes"]}
    out = [f"lane {r['lane']} is not in the table: {_say(r)}" for r in t.events if r["lane"] not in known]
    last: dict[tuple[int, int], Row] = {}
    for row in t.events:
        lane = known.get(row["lane"])
        if lane and lane["kind"] == "thread" and (lane["process"], lane["thread"]) != (row["process"], row["thread"]):
            out.append(f"process or thread is not its lane's: {_say(row)}")
        key = (row["lane"], row["depth"])
        before = last.get(key)
        if before is not None and before["start"] + before["duration"] > row["start"]:
            out.append(f"overlaps on its lane: {_say(before)} and {_say(row)}")
        last[key] = row
    return out


def steps(t: Rows) -> list[str]:
    said = t.metadata["steps"]
    rows = [r for r in t.events if r["kind"] == "step"]
    out = []
    if len(rows) < said["count"]:
        out.append(f"{said['count']} steps are claimed, {len(rows)} step rows exist")
    spans = {(r["process"], r["step"]): (r["start"], r["start"] + r["duration"]) for r in rows}
    for row in t.events:
        if row["kind"] == "step" or row["step"] < 0:
            continue
        span = spans.get((row["process"], row["step"]))
        if span is None:
            if any(p == row["process"] for p, _ in spans):
                out.append(f"step {row['step']} has no row: {_say(row)}")
        elif not span[0] <= row["start"] <= span[1]:
            out.append(f"lies outside step {row['step']}: {_say(row)}")
    return out


def counts(t: Rows) -> list[str]:
    said = t.metadata["counts"]
    kinds = Counter(r["kind"] for r in t.events)
    out = []
    if said["events"] != len(t.events):
        out.append(f"{said['events']} events are claimed, {len(t.events)} rows exist")
    claimed = {k: n for k, n in said["by_kind"].items() if n and k not in ("frame", "source")}
    if claimed != dict(kinds):
        out.append(f"by kind: {claimed} are claimed, {dict(kinds)} exist")
    for loss in ("dropped", "torn_records", "torn_table_entries", "unended", "quarantined"):
        if said.get(loss):
            out.append(f"{said[loss]} {loss}")
    if not t.metadata["finished"] or t.metadata["recovered"]:
        out.append("not marked as finished")
    return out


def joins(t: Rows) -> list[str]:
    """A backward node's correlation is an event that began before it, on the line it carries."""
    out = []
    for row in t.events:
        if row["kind"] != "autograd":
            continue
        if row["attribution"] == "forward" and row["correlation"] < 0:
            out.append(f"joined to no event: {_say(row)}")
        if row["correlation"] < 0:
            continue
        forward = t.by_id.get(row["correlation"])
        if forward is None:
            out.append(f"joined to a missing event: {_say(row)}")
        elif forward["start"] > row["start"]:
            out.append(f"joined to a later event: {_say(row)} to {_say(forward)}")
        elif row["attribution"] == "forward" and (forward["file"], forward["line"]) != (row["file"], row["line"]):
            out.append(f"line differs from its forward's: {_say(row)} and {_say(forward)}")
    return out


def frames(t: Rows) -> list[str]:
    lost = [r for r in t.events if r["stack"] >= 0 and r["stack"] not in t.frames]
    out = [f"stack {r['stack']} is no frame: {_say(r)}" for r in lost]
    for frame in t.frames.values():
        if frame["parent"] >= 0 and frame["parent"] not in t.frames:
            out.append(f"frame {frame['id']} has a missing parent")
        if not frame["file"] or frame["line"] <= 0 or not frame["function"]:
            out.append(f"frame {frame['id']} says {frame['file']}:{frame['line']} {frame['function']}")
    return out
