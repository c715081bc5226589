"""Questions about memory: who holds the peak, what is alive at a moment, what is allocated, what leaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neuron_explorer.analysis import memory_tables as t
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, Ask, Missing, Question, fill, place, unless_observed
from neuron_explorer.analysis.filters import Filter
from neuron_explorer.analysis.marks import step_rows
from neuron_explorer.analysis.memory_blocks import Blocks, blocks
from neuron_explorer.analysis.memory_categories import CATEGORIES, RULES, categories
from neuron_explorer.analysis.memory_leaks import ENOUGH_STEPS, LATER, Leaks, leaks
from neuron_explorer.analysis.memory_places import Share, by_category, by_line, by_module, operators
from neuron_explorer.analysis.memory_state import (
    Peak,
    Window,
    alive_at,
    moment,
    owners,
    peak,
    position_at,
    timeline,
    window,
)
from neuron_explorer.analysis.render_answer import shown

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

HOW: Final = "record with memory=True, or nxplorer record --memory"


def owner_names(found: Blocks) -> tuple[str, ...]:
    """The owners as tables call them: the device, and what else tells them apart."""
    ranks = {o.rank for o in found.owners}
    processes = {(o.rank, o.process) for o in found.owners}
    names = []
    for owner in found.owners:
        parts = [owner.device or "unnamed device"]
        parts += [f"rank {owner.rank}"] if len(ranks) > 1 else []
        parts += [f"process {owner.process}"] if len(processes) > len(ranks) else []
        names.append(", ".join(parts))
    return tuple(names)


def owner_labels(found: Blocks) -> tuple[str, ...]:
    """The same, and nothing where there is only one."""
    return owner_names(found) if len(found.owners) > 1 else ("",) * len(found.owners)


def unrecorded(trace: Trace) -> tuple[Missing, ...]:
    """What is missing where memory was not recorded; nothing where it was."""
    return () if len(blocks(trace).rows) else unless_observed(trace, "memory", "memory", HOW)


def chosen_filter(ask: Ask) -> Filter:
    """The filters of what is asked."""
    return ask.period if isinstance(ask.period, Filter) else Filter(ask.period)


def remarks(found: Blocks) -> tuple[str, ...]:
    """What a reader of any figure about these blocks must know."""
    said = []
    if found.odd:
        said.append(f"{q.plural(found.odd, 'row')} about memory that make no sense set aside")
    if found.nameless:
        what = q.plural(found.nameless, "allocation or release", "allocations and releases")
        said.append(f"{what} left out: the trace does not tell which block each is about")
    late = int(found.late.sum())
    if late:
        said.append(f"{q.plural(late, 'block')} went while nothing was recorded, and count until it went on")
    early = found.row < 0
    if early.any():
        said.append(
            f"{shown(int(found.bytes[early].sum()), 'B')} in {q.plural(int(early.sum()), 'block')} were there before "
            "the recording: no line says where they come from"
        )
    if any(o.device == "cpu" for o in found.owners):
        said.append("on the CPU, other memory from before the recording is not counted, nor what is not torch's")
    return tuple(said)


def nothing(trace: Trace, name: str, tables: tuple[Any, ...]) -> Answer:
    """The answer where no row is about memory."""
    missing = unrecorded(trace)
    head = "memory: not observed" if missing else "nothing was allocated"
    return Answer(name, head, tuple(fill(kind, [], 1) for kind in tables), missing=missing)


def step_at(trace: Trace, found: Blocks, owner: int, at: int) -> int | None:
    """The step of the owner's process that holds a time; None outside steps."""
    who, marks = found.owners[owner], step_rows(trace)
    inside = (marks.rank == who.rank) & (marks.process == who.process) & (marks.start <= at)
    inside &= (at < marks.start + marks.duration) & (marks.duration >= 0)
    picked = marks.step[inside]
    return int(picked[-1]) if len(picked) else None


def device_records(trace: Trace, chosen: tuple[int, ...], span: Window, peaks: dict[int, Peak]) -> list[dict[str, Any]]:
    """A record of ``DEVICES`` for each owner."""
    found, names = blocks(trace), owner_names(blocks(trace))
    records = []
    for owner in chosen:
        top, mine = peaks[owner], found.owner == owner
        inside = mine & (found.born >= max(0, span.first)) & (found.born <= span.last)
        reserved, unused = _reserved(found, owner, span, top)
        records.append({
            "device": names[owner], "peak": top.bytes, "peak_at_ns": top.at,
            "peak_step": step_at(trace, found, owner, top.at),
            "at_start": int(found.bytes[alive_at(found, span.first - 1, owner)].sum()),
            "at_end": int(found.bytes[alive_at(found, span.last, owner)].sum()),
            "allocations": int(inside.sum()), "allocated": int(found.bytes[inside].sum()),
            "reserved": reserved, "unused": unused,
        })  # fmt: skip
    return records


def _reserved(found: Blocks, owner: int, span: Window, top: Peak) -> tuple[int | None, float | None]:
    """Most reserved bytes of the window, and the unused part of them at the peak."""
    levels = found.levels.get(owner)
    if levels is None:
        return None, None
    levels = levels[levels[:, 2] > 0]
    until = levels[levels[:, 0] <= max(span.last, 0)]
    if not len(until):
        return None, None
    start = int(np.searchsorted(until[:, 0], span.first, "left"))
    reserved = int(until[max(0, start - 1) :, 2].max())
    # The level is told right after the allocation that changed it.
    said = int(np.searchsorted(until[:, 0], top.position + 1, "right")) - 1
    held = int(until[max(said, 0), 2])
    return reserved, max(0.0, 1 - top.bytes / held) if held else None


def holder_records(
    trace: Trace, owner: int, shares: list[Share], exact: np.ndarray | None = None, most: int = 0
) -> list[dict[str, Any]]:
    """Shares of what is alive as records; the operator is looked up for the first ``most`` (0: none)."""
    found, names = blocks(trace), owner_labels(blocks(trace))
    whole = sum(s.bytes for s in shares)
    called = operators(trace, found.rows, [s.row for s in shares[:most]])
    return [
        {
            "device": names[owner], "place": place(s.file, s.line),
            "function": s.function if s.row >= 0 else "before the recording", "module": s.module,
            "category": s.category, "bytes": s.bytes, "share": s.bytes / whole if whole else None, "blocks": s.blocks,
            "largest": s.largest, "operator": called.get(s.row, ""), "phase": s.phase,
            "exact": int(found.bytes[s.members][exact[s.members]].sum()) if exact is not None else None,
        }
        for s in shares
    ]  # fmt: skip


def held(
    trace: Trace, chosen: tuple[int, ...], positions: dict[int, int], top: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Records by category, line and module of what is alive at a position of each owner."""
    found = blocks(trace)
    category, exact = categories(trace)
    kinds, lines, modules = [], [], []
    for owner in chosen:
        members = alive_at(found, positions[owner], owner)
        kinds += holder_records(trace, owner, by_category(found, members, category), exact)
        lines += holder_records(trace, owner, by_line(found, members, category), most=top)
        modules += holder_records(trace, owner, by_module(found, members, category), most=top)
    return kinds, lines, modules


def _memory(trace: Trace, ask: Ask) -> Answer:
    found, wanted = blocks(trace), chosen_filter(ask)
    if not len(found.rows):
        return nothing(trace, "memory", (t.DEVICES, t.PEAK_CATEGORIES, t.HOLDERS, t.HOLDING_MODULES, t.LEAKS))
    chosen, span = owners(found, wanted), window(trace, wanted)
    at = moment(ask.target)
    peaks = {owner: peak(trace, owner, span) for owner in chosen}
    positions = {o: p.position for o, p in peaks.items()}
    if at is not None:
        positions = dict.fromkeys(chosen, position_at(found, at))
    kinds, lines, modules = held(trace, chosen, positions, ask.top)
    devices = device_records(trace, chosen, span, peaks)
    leaking = leaks(trace, chosen)
    tables = (
        fill(t.DEVICES, devices, ask.top),
        fill(t.PEAK_CATEGORIES, kinds, max(ask.top, len(CATEGORIES)), add=("bytes",)),
        fill(t.HOLDERS, _largest(lines), ask.top, add=("bytes", "blocks")),
        fill(t.HOLDING_MODULES, _largest(modules), ask.top, add=("bytes", "blocks")),
        fill(t.LEAKS, leak_records(trace, leaking), ask.top, add=("bytes",)),
    )
    said = "what is alive at the peak" if at is None else f"what is alive {q.duration(at)} after the start"
    notes = (*remarks(found), *_leak_notes(leaking))
    return Answer("memory", _headline(devices, lines, at), tables, f"{span.text}; {said}", notes)


def _largest(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda r: -r["bytes"])


def _headline(devices: list[dict[str, Any]], lines: list[dict[str, Any]], at: int | None) -> str:
    first = devices[0]
    if not first["peak"] and at is None:
        return f"no block of memory of {first['device']} could be followed"
    mine = _largest([r for r in lines if r["device"] in ("", first["device"])])
    if at is None:
        head = f"peak of {first['device']}: {shown(first['peak'], 'B')} at {q.duration(first['peak_at_ns'])}"
    else:
        head = f"{first['device']} at {q.duration(at)}: {shown(sum(r['bytes'] for r in mine), 'B')}"
    if mine:
        head += f"; {shown(mine[0]['bytes'], 'B')} of it from {mine[0]['place'] or mine[0]['category']}"
    return head


def _leak_notes(found: Leaks) -> tuple[str, ...]:
    return (f"leaks: {found.reason}",) if found.reason else ()


def leak_records(trace: Trace, leaking: Leaks) -> list[dict[str, Any]]:
    """The leaks as records."""
    found = blocks(trace)
    names = owner_labels(found)
    called = operators(trace, found.rows, [leak.share.row for leak in leaking.rows])
    return [
        {
            "device": names[x.owner], "place": place(x.share.file, x.share.line), "function": x.share.function,
            "bytes": x.share.bytes, "blocks": x.share.blocks, "per_step": x.per_step, "steps": x.steps,
            "first_step": x.first, "last_step": x.last, "category": x.share.category,
            "operator": called.get(x.share.row, ""), "module": x.share.module,
        }
        for x in leaking.rows
    ]  # fmt: skip


def _timeline(trace: Trace, ask: Ask) -> Answer:
    found, wanted = blocks(trace), chosen_filter(ask)
    if not len(found.rows):
        return nothing(trace, "memory-timeline", (t.TIMELINE,))
    chosen, span, names = owners(found, wanted), window(trace, wanted), owner_labels(found)
    records, moments = [], 0
    for owner in chosen:
        line = timeline(trace, owner, span, max(2, ask.top // len(chosen)))
        moments += line.moments
        columns = [c.name for c in t.TIMELINE.columns[3:]]
        records += [
            {"device": names[owner], "at_ns": at, "total": sum(levels), **dict(zip(columns, levels, strict=True))}
            for at, levels in zip(line.at.tolist(), line.bytes.tolist(), strict=True)
        ]
    head = _headline(device_records(trace, chosen, span, {o: peak(trace, o, span) for o in chosen}), [], None)
    table = fill(t.TIMELINE, records, len(records))
    note = f"{q.plural(len(records), 'point')} of {q.plural(moments, 'moment')}; each shows the most of its moments"
    return Answer("memory-timeline", head, (table,), span.text, (*remarks(found), note))


def allocation_records(trace: Trace, owner: int, span: Window, most: int) -> list[dict[str, Any]]:
    """The lines that allocate most in the window; operators are looked up for the first ``most``."""
    found = blocks(trace)
    category, _ = categories(trace)
    names, rows, count = owner_labels(found), found.rows, len(found.rows)
    members = np.flatnonzero((found.owner == owner) & (found.born >= max(0, span.first)) & (found.born <= span.last))
    who, marks = found.owners[owner], step_rows(trace)
    steps = int(((marks.rank == who.rank) & (marks.process == who.process)
                 & (marks.start >= span.start) & (marks.start + marks.duration <= span.end)).sum())  # fmt: skip
    shares = by_line(found, members, category)
    called = operators(trace, rows, [s.row for s in shares[:most]])
    records = []
    for share in shares:
        record = {
            "device": names[owner], "place": place(share.file, share.line), "function": share.function,
            "allocated": share.bytes, "allocations": share.blocks, "largest": share.largest,
            "per_step": share.bytes / steps if steps else None, "category": share.category,
            "operator": called.get(share.row, ""), "module": share.module, "phase": share.phase,
        }  # fmt: skip
        if len(records) < most:
            died = found.died[share.members]
            gone = died < count
            lives = rows.start[died[gone]] - rows.start[found.born[share.members][gone]]
            record["life_ns"] = float(np.median(lives)) if gone.sum() * 2 > len(gone) else None
            record["released_by"] = _released_by(found, share.members[gone], died[gone])
        records.append(record)
    return records


def _released_by(found: Blocks, members: np.ndarray, died: np.ndarray) -> str:
    """The line that released most of these bytes."""
    rows = found.rows
    known = rows.file.codes[died] >= 0
    if not known.any():
        return ""
    at = died[known]
    key = rows.file.codes[at].astype(np.int64) << 32 | (rows.line[at] & 0xFFFFFFFF)
    places, index = np.unique(key, return_inverse=True)
    best = int(np.argmax(np.bincount(index.reshape(-1), found.bytes[members[known]].astype(float), len(places))))
    row = int(at[np.flatnonzero(index.reshape(-1) == best)[0]])
    return place(rows.file.at(row), int(rows.line[row]))


def _allocations(trace: Trace, ask: Ask) -> Answer:
    found, wanted = blocks(trace), chosen_filter(ask)
    if not len(found.rows):
        return nothing(trace, "memory-lines", (t.ALLOCATIONS,))
    chosen, span = owners(found, wanted), window(trace, wanted)
    records = [r for owner in chosen for r in allocation_records(trace, owner, span, ask.top)]
    records.sort(key=lambda r: -r["allocated"])
    table = fill(t.ALLOCATIONS, records, ask.top, add=("allocated", "allocations"))
    head = "nothing was allocated in this part of the run"
    if records:
        first, many = records[0], q.plural(records[0]["allocations"], "allocation")
        head = f"{shown(first['allocated'], 'B')} in {many} at {first['place'] or 'no line'}"
    return Answer("memory-lines", head, (table,), span.text, remarks(found))


_BASE: Final = (
    "Blocks are followed from their allocation to their release, with the line that each had: CPU memory of torch's "
    "own allocator, and what the allocators of other devices report. The order of events is that of their times. The "
    "whole run counts unless a range of steps is asked for. "
)  # fmt: skip
_CATEGORIES: Final = "Categories:\n\n" + "\n".join(f"- {name}: {rule}" for name, rule in RULES.items())
_LEAKS: Final = (
    f"A line leaks where blocks of at least three steps live on {LATER} steps after their own and to the end, and "
    f"where what it keeps still grows from the middle of the run to three quarters and to the end ({ENOUGH_STEPS} "
    "steps or more)."
)
QUESTIONS: Final = (
    Question(
        "memory", "Who holds the memory at its peak, or at another moment, and what leaks?",
        _BASE + "The peak is the first moment with most bytes. " + _LEAKS + "\n\n" + _CATEGORIES,
        (t.DEVICES, t.PEAK_CATEGORIES, t.HOLDERS, t.HOLDING_MODULES, t.LEAKS), _memory,
        target="A moment since the start of the trace (`12.5ms`, `3s`) instead of the peak.",
        filters=("period", "rank", "device", "process"),
    ),
    Question(
        "memory-timeline", "How much memory is allocated over time, and for what?",
        _BASE + "`--top` is the number of points, shared by the devices: the first, the last and the highest of each "
        "stretch.",
        (t.TIMELINE,), _timeline, filters=("period", "rank", "device", "process"),
    ),
    Question(
        "memory-lines", "Which lines allocate most, and who releases it?",
        _BASE + "Every allocation counts, also one that is released at once.", (t.ALLOCATIONS,), _allocations,
        filters=("period", "rank", "device", "process"),
    ),
)  # fmt: skip
