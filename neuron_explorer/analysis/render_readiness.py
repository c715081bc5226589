"""The porting report as text for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis import readiness_words as w
from neuron_explorer.analysis.markdown import code, escaped, markdown_table
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.readiness import Readiness
from neuron_explorer.analysis.terminal import Page

READINESS_VERSION: Final = 1
"""Raised when a key of the JSON changes its meaning."""

EMULATED: Final = "emulated: no Neuron device took part; times are what this CPU took"


def render(report: Readiness, format: str = "text", *, top: int = 10) -> str:
    """The report in a format: ``text``, ``json`` or ``markdown``. Raises ValueError for another."""
    renderers = {"text": render_text, "json": render_json, "markdown": render_markdown}
    if format not in renderers:
        raise ValueError(f"format must be one of {', '.join(renderers)}, not {format!r}")
    return renderers[format](report, top=top)


def as_dict(report: Readiness, *, top: int = 10) -> dict[str, Any]:
    """The report as plain data, times in ns; tables are cut after ``top`` rows of each status."""
    facts = report.facts
    shown = [o for status in ("fallback", "unknown", "native") for o in report.by_status(status)[:top]]
    shapes = asdict(report.shapes)
    shapes["lines"] = shapes["lines"][:top]
    return {
        "readiness_version": READINESS_VERSION,
        "run": {"name": facts.name, "device": facts.device, "emulated": report.emulated, "script": facts.script,
                "versions": facts.versions, "events": facts.events},
        "basis": {"seen": report.seen, "text": report.basis},
        "time": report.time,
        "steady_steps": report.steady_steps,
        "launches_per_step": report.launches_per_step,
        "graphs_per_step": report.graphs_per_step,
        "counts": {s: {"operators": n, "calls": calls} for s, (n, calls) in report.counts().items()},
        "operators": [asdict(o) for o in shown],
        "operators_total": len(report.operators),
        "limits": [asdict(x) for x in report.limits],
        "shapes": shapes,
        "waits": [asdict(x) for x in report.waits[:top]],
        "waits_total": len(report.waits),
        "floor": asdict(report.floor),
        "notes": list(report.notes),
    }  # fmt: skip


def render_json(report: Readiness, *, top: int = 10) -> str:
    """``as_dict`` as JSON. ASCII: a terminal acts on some of the characters beyond it."""
    return json.dumps(as_dict(report, top=top), indent=2) + "\n"


def render_text(report: Readiness, *, top: int = 10, width: int | None = None, color: bool | None = None) -> str:
    """The report for a terminal of ``width`` columns (by default its own, between 72 and 120)."""
    page = Page(width, color)
    facts = report.facts
    chips = [facts.device, *(["emulated"] if report.emulated else []), q.plural(facts.events, "event")]
    if facts.versions.get("torch"):
        chips.insert(-1, f"torch {facts.versions['torch']}")
    page.head(f"{facts.name or 'trace'}", " · ".join(plain(c, 80) for c in chips))
    page.dim(report.basis)
    page.dim(f"Times are {report.time}.")
    _text_operators(page, report, top)
    _text_limits(page, report)
    _text_shapes(page, report, top)
    _text_waits(page, report, top)
    _text_floor(page, report, top)
    page.title("Notes")
    for note in report.notes:
        page.dim("  " + note)
    return page.text()


def _text_operators(page: Page, report: Readiness, top: int) -> None:
    page.title("Operators", note=w.status_sentence(report))
    columns = [("operator", "name"), ("calls a step" if report.steady_steps else "calls", "number"),
               ("in all", "number"), ("host time", "number"), ("to host", "number"), ("to device", "number"),
               ("line", "place")]  # fmt: skip
    for status, title in (("fallback", f"Fall back to the CPU{w.predicted(report)}"), ("unknown", "Unknown")):
        rows = report.by_status(status)
        if not rows:
            continue
        page.subtitle(title)
        page.table(
            columns,
            [
                [o.name, w.operator_calls(report, o), q.count(o.calls), q.duration(o.duration_ns),
                 w.size(o.bytes_to_host), w.size(o.bytes_to_device), w.places(o.lines[:1])]
                for o in rows[:top]
            ],
        )  # fmt: skip
        page.rest(len(rows) - top, "operator")


def _text_limits(page: Page, report: Readiness) -> None:
    page.title("Unsupported or changed")
    if not report.limits:
        page.dim("  Nothing that a Neuron device is known to lack.")
    for limit in report.limits:
        chips = f" ({', '.join(limit.chips)})" if limit.chips else ""
        page.entry(limit.level, limit.title + chips, f"{w.limit_calls(limit)}. {limit.text}", w.places(limit.lines[:1]))


def _text_shapes(page: Page, report: Readiness, top: int) -> None:
    page.title("Shape variety", note=w.shape_sentence(report.shapes, report.seen))
    rows = report.shapes.lines
    if not rows:
        return
    page.table(
        [("line", "place"), ("operator", "name"), ("calls", "number"), ("distinct", "number"), ("late", "number"),
         ("sizes that vary", "text")],
        [[w.place(r.file, r.line), r.name, q.count(r.calls), q.count(r.signatures), w.late_text(r), r.varies]
         for r in rows[:top]],
    )  # fmt: skip
    page.rest(report.shapes.total_lines - top, "line")


def _text_waits(page: Page, report: Readiness, top: int) -> None:
    page.title(f"The host waits{'' if report.seen else ' (predicted)'}")
    if not report.waits:
        page.dim("  No value is read back and nothing is copied, as far as the trace can tell.")
        return
    page.table(
        [("line", "place"), ("what", "text"), ("calls a step" if report.steady_steps else "calls", "number"),
         ("in all", "number"), ("bytes", "number")],
        [[w.place(x.file, x.line), w.wait_text(x),
          q.per_step(x.steady_calls / report.steady_steps) if report.steady_steps else q.count(x.calls),
          q.count(x.calls), w.size(x.bytes) if x.bytes else "–"] for x in report.waits[:top]],
    )  # fmt: skip
    page.rest(len(report.waits) - top, "line")


def _text_floor(page: Page, report: Readiness, top: int) -> None:
    floor = report.floor
    page.title(f"Floor of {floor.per}", w.arithmetic(floor.flops), floor.coverage_text)
    page.table(
        [("chip", "name"), ("op by op", "number"), ("arithmetic", "number"), ("bound by", "text"),
         ("assumption", "text")],
        [[w.scope(f), q.duration(f.by_op_ns), q.duration(f.arithmetic_ns), w.bound(f), f.assumption]
         for f in floor.floors],
    )  # fmt: skip
    for text in floor.assumptions:
        page.dim("  " + text)
    if floor.unmodelled:
        page.subtitle("Without a model, so not in the floor")
        page.table(
            [("operator", "name"), ("calls", "number"), ("share of host time", "number"), ("why", "text")],
            [[u.name, q.count(u.calls), q.share(u.share), u.reason] for u in floor.unmodelled[:top]],
        )
        page.rest(len(floor.unmodelled) - top, "operator")


# ---------------------------------------------------------------- Markdown


def render_markdown(report: Readiness, *, top: int = 10) -> str:
    """The report as GitHub-flavoured Markdown; names are code, never markup."""
    facts = report.facts
    emulated = f" ({EMULATED})" if report.emulated else ""
    out = [f"# Readiness of {escaped(facts.name or 'trace')}", "", f"{escaped(facts.device)}{emulated}", "",
           f"{escaped(report.basis)} Times are {escaped(report.time)}.", ""]  # fmt: skip
    out += ["## Operators", "", escaped(w.status_sentence(report)), ""]
    rows = [*report.by_status("fallback")[:top], *report.by_status("unknown")[:top]]
    if rows:
        out += markdown_table(
            ["operator", "status", "calls", "host time", "to host", "to device", "line"],
            [[code(o.name), o.status + w.predicted(report) * (o.status == "fallback"), q.count(o.calls),
              q.duration(o.duration_ns), w.size(o.bytes_to_host), w.size(o.bytes_to_device),
              code(w.places(o.lines[:1]))] for o in rows],
            right=(2, 3, 4, 5),
        )  # fmt: skip
    out += ["", "## Unsupported or changed", ""]
    for limit in report.limits:
        chips = f" ({', '.join(limit.chips)})" if limit.chips else ""
        where = f" {code(w.places(limit.lines[:1]))}" if limit.lines else ""
        said = f"{w.limit_calls(limit)}. {limit.text}"
        out.append(f"- **{escaped(limit.title)}**{chips}: {escaped(said)}{where}")
    if not report.limits:
        out.append("Nothing that a Neuron device is known to lack.")
    out += ["", "## Shape variety", "", escaped(w.shape_sentence(report.shapes, report.seen)), ""]
    if report.shapes.lines:
        out += markdown_table(
            ["line", "operator", "calls", "distinct", "late", "sizes that vary"],
            [[code(w.place(r.file, r.line)), code(r.name), q.count(r.calls), q.count(r.signatures), w.late_text(r),
              code(r.varies)] for r in report.shapes.lines[:top]],
            right=(2, 3, 4),
        )  # fmt: skip
    out += ["", f"## The host waits{'' if report.seen else ' (predicted)'}", ""]
    out += [
        f"- {code(w.place(x.file, x.line))}: {escaped(w.wait_text(x))}, {q.plural(x.calls, 'call')}"
        for x in report.waits[:top]
    ] or ["No value is read back and nothing is copied, as far as the trace can tell."]
    floor = report.floor
    out += ["", f"## Floor of {floor.per}", "", escaped(f"{w.arithmetic(floor.flops)}. {floor.coverage_text}"), ""]
    out += markdown_table(
        ["chip", "op by op", "arithmetic", "bound by", "assumption"],
        [[w.scope(f), q.duration(f.by_op_ns), q.duration(f.arithmetic_ns), w.bound(f), f.assumption]
         for f in floor.floors],
        right=(1, 2),
    )  # fmt: skip
    out += ["", *(f"- {escaped(text)}" for text in floor.assumptions)]
    if floor.unmodelled:
        out += ["", "Without a model, so not in the floor:", ""]
        out += [f"- {code(u.name)}: {q.plural(u.calls, 'call')}, {q.share(u.share)} of host time; {escaped(u.reason)}"
                for u in floor.unmodelled[:top]]  # fmt: skip
    out += ["", "## Notes", "", *(f"- {escaped(note)}" for note in report.notes)]
    return "\n".join(out).rstrip() + "\n"
