"""A comparison as tables, in the shape of every report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.answer import Answer, AnswerTable, Column, TableKind, fill, place
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.time_verdict import Compared
from neuron_explorer.check.words import from_to, name_of
from neuron_explorer.comparing.comparison import WORDS, Comparison
from neuron_explorer.comparing.rows import Node, Row
from neuron_explorer.comparing.run import Run

_TIMES: Final = (
    Column("before_ns", "ns", "Self time in a step before, a mean over the runs; none where the side lacks it."),
    Column("after_ns", "ns", "The same after."),
    Column("change_ns", "ns", "After less before."),
    Column("launches_before", "count", "Launches in a step before."),
    Column("launches_after", "count", "The same after."),
)
_VERDICT: Final = (
    Column("verdict", "text", "`slower`, `faster`, `same`, `suspicious`, `not enough data`, `not compared`"
           " (other environments); none for single runs."),
    Column("ratio_low", "ratio", "Low end of the interval of after over before."),
    Column("ratio_high", "ratio", "Its high end."),
)
ENVIRONMENT: Final = TableKind(
    "environment", "What differs around the program",
    (Column("name", "text", "torch, Python, device, chip, processor, threads."),
     Column("before", "text", "Before."), Column("after", "text", "After.")),
)  # fmt: skip
TREE: Final = TableKind(
    "tree", "Where the change comes from",
    (Column("part", "text", "The step, its parts, and below each its lines."),
     Column("level", "count", "0 for the step, 1 for a part, 2 for a line."),
     Column("before_ns", "ns", "Time in a step before, on the main thread."),
     Column("after_ns", "ns", "The same after."), Column("change_ns", "ns", "After less before."), *_VERDICT),
    "change_ns: rows of a level add up to the row above them",
)  # fmt: skip
LINES: Final = TableKind(
    "lines", "Lines",
    (Column("place", "place", "The line after; of a removed one, before."),
     Column("how", "text", "How it was matched: same, edited, renamed, moved; added and removed have no partner."),
     *_TIMES, *_VERDICT, Column("before_place", "place", "The line before, where it is another one."),
     Column("function", "text", "Its function."), Column("code", "text", "Its text.")),
)  # fmt: skip
OPS: Final = TableKind("ops", "Operators", (Column("name", "text", "Operator with its overload."), *_TIMES, *_VERDICT))
SHAPES: Final = TableKind(
    "shapes", "Operators by shape",
    (Column("name", "text", "Operator with its overload."), *_TIMES,
     Column("dtypes", "text", "Dtypes of its arguments, a JSON list."),
     Column("shapes", "text", "Their sizes, a JSON list."), *_VERDICT),
)  # fmt: skip
MODULES: Final = TableKind("modules", "Modules", (Column("module", "text", "Path of the module."), *_TIMES, *_VERDICT))
COUNTS: Final = TableKind(
    "counts", "Exact counts",
    (Column("group", "text", "What is counted: launches, recompiles, graph breaks, fallbacks, copies and others."),
     Column("what", "text", "The key."), Column("change", "text", "Before and after."),
     Column("verdict", "text", "As `check` would say it."), Column("place", "place", "The line, where there is one.")),
)  # fmt: skip
TABLES: Final = (ENVIRONMENT, TREE, LINES, OPS, SHAPES, MODULES, COUNTS)


def answer_of(found: Comparison, top: int = 20) -> Answer:
    """The comparison as an answer."""
    tree = found.tree
    before, after = tree.before_ns, tree.after_ns
    change = f"{100 * (after / before - 1):+.1f} %" if before else "new"
    head = f"a {found.per} took {q.duration(before)}, takes {q.duration(after)} ({change}{_said(found)})"
    notes = list(found.notes)
    gone, new = found.unmatched_ns
    notes.append(f"on lines without a partner: {q.duration(gone)} before, {q.duration(new)} after")
    tables = (
        fill(ENVIRONMENT, [{"name": n, "before": b, "after": a} for n, b, a in found.environment], 100),
        _tree(found, top),
        _filled(LINES, [_line(row) for row in found.lines], top),
        _filled(OPS, [{"name": row.key[0], **_costs(row)} for row in found.ops], top),
        _filled(SHAPES, [{"name": r.key[0], "dtypes": r.key[1], "shapes": r.key[2], **_costs(r)} for r in found.shapes],
                top),
        _filled(MODULES, [{"module": row.key[0], **_costs(row)} for row in found.modules], top),
        fill(COUNTS, [{"group": d.group.title, "what": name_of(d), "change": from_to(d), "verdict": d.verdict,
                       "place": place(d.file, d.line)} for d in found.counts.found], top),
    )  # fmt: skip
    scope = f"{side_text(found.before)} against {side_text(found.after)}; {found.after[0].time}"
    return Answer("compare", head, tables, scope, tuple(notes))


def side_text(runs: Sequence[Run]) -> str:
    """The runs of a side in words."""
    if len(runs) == 1:
        return f"{plain(runs[0].name, 80)} ({q.plural(runs[0].steps, 'steady step')})"
    least, most = min(run.steps for run in runs), max(run.steps for run in runs)
    steps = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{len(runs)} runs ({steps} steady steps each)"


def _said(found: Comparison) -> str:
    step = found.step
    if step is None:
        return "; one run a side"
    verdict = WORDS.get(step.verdict, step.verdict)
    return f"; {verdict}: {step.why}" + (
        f"; interval {step.low:.2f} to {step.high:.2f}" if step.low else ""
    )


def _filled(kind: TableKind, records: list[dict[str, Any]], top: int) -> AnswerTable:
    changed = [r for r in records if r["change_ns"] or r.get("how") in ("added", "removed")]
    return fill(kind, changed, top, add=("before_ns", "after_ns", "change_ns"))


def _costs(row: Row) -> dict[str, Any]:
    return {
        "before_ns": row.before.self_ns if row.before else None,
        "after_ns": row.after.self_ns if row.after else None,
        "change_ns": row.change_ns,
        "launches_before": row.before.launches if row.before else None,
        "launches_after": row.after.launches if row.after else None,
        **_verdict(row.compared),
    }


def _verdict(judged: Compared | None) -> dict[str, Any]:
    return {
        "verdict": WORDS.get(judged.verdict, judged.verdict) if judged else "",
        "ratio_low": judged.low if judged and judged.low else None,
        "ratio_high": judged.high if judged and judged.low else None,
    }


def _line(row: Row) -> dict[str, Any]:
    shown = row.line_after or row.line_before or ("", -1, "")
    other = row.line_before if row.line_after and row.line_before and row.line_before[:2] != shown[:2] else None
    return {
        "place": place(shown[0], shown[1]) or f"({shown[2] or 'no line'})", "how": row.how, **_costs(row),
        "before_place": place(other[0], other[1]) if other else "", "function": shown[2],
        "code": row.key[2] if len(row.key) > 2 else "",
    }  # fmt: skip


def _tree(found: Comparison, top: int) -> AnswerTable:
    rows = list(_walk(found.tree, 0, top))
    return fill(TREE, rows, len(rows))


def _walk(node: Node, level: int, top: int) -> Iterator[dict[str, Any]]:
    yield {"part": "  " * level + node.label, "level": level, "before_ns": node.before_ns, "after_ns": node.after_ns,
           "change_ns": node.change_ns, **_verdict(node.compared)}  # fmt: skip
    shown, hidden = node.children[:top], node.children[top:]
    for child in shown:
        yield from _walk(child, level + 1, max(3, top // 4))
    if hidden:
        before, after = sum(n.before_ns for n in hidden), sum(n.after_ns for n in hidden)
        yield {"part": "  " * (level + 1) + f"{len(hidden)} more", "level": level + 1, "before_ns": before,
               "after_ns": after, "change_ns": after - before, **_verdict(None)}  # fmt: skip
