"""A report as one HTML file that works offline: no external resource, one style sheet and one script inside.

The document forbids itself everything else (Content-Security-Policy): only the style sheet and the script that
draws the timeline, named by their hashes, apply. Every text of the trace is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis import report_charts as charts
from neuron_explorer.analysis.alert import NOT_OBSERVED, Alert
from neuron_explorer.analysis.facts import LOSS_COUNTS
from neuron_explorer.analysis.html_text import Markup, code, definitions, element, join, table, text
from neuron_explorer.analysis.plain import short_file
from neuron_explorer.analysis.render_timeline import render_timeline, script
from neuron_explorer.analysis.report import Excerpt, Report

MOST_OCCURRENCES: Final = 12
MOST_REASON_LINES: Final = 12


def render(report: Report) -> str:
    """The document. Under a megabyte: every table and list is bounded."""
    data = report.summary
    sections = [
        ("Overview", "overview", _overview(report)),
        ("Timeline", "timeline", render_timeline(report.timeline) if report.timeline else ""),
        ("Alerts", "alerts", _alerts(report)),
        ("Step times", "steps", _steps(data)),
        ("Lines", "lines", _lines(data)),
        ("Operators", "operators", _costs(data, "ops", "operator", "name")),
        ("Modules", "modules", _costs(data, "modules", "module", "module")),
        ("Compiling", "compiling", _compiling(data)),
        ("Lines of compiled code", "compiled", _compiled(data)),
        ("Environment", "environment", _environment(report)),
    ]
    shown = [(title, key, body) for title, key, body in sections if body]
    links = join(element("a", title, href=f"#{key}") for title, key, _ in shown)
    parts = join(
        element("section", element("h2", title, id=f"{key}-title"), body, id=key, aria_labelledby=f"{key}-title")
        for title, key, body in shown
    )
    name = text(report.facts.name)
    style = _style()
    drawing = _drawing(report)
    scripts = f"script-src 'sha256-{_digest(script())}'; " if drawing else ""
    policy = f"default-src 'none'; style-src 'sha256-{_digest(style)}'; {scripts}base-uri 'none'; form-action 'none'"
    version = report.versions.get("neuron_explorer", "")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{name} – Neuron Explorer</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{name}</h1>{_lead(report)}</header>\n"
        f'<nav aria-label="Sections">{links}</nav>\n<main>\n{parts}\n</main>\n'
        f"<footer>A report of Neuron Explorer about a trace recorded by version {text(version or 'unknown')}. "
        "It holds names, paths and source lines of the program.</footer>\n"
        f"{drawing}</body>\n</html>\n"
    )


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _drawing(report: Report) -> str:
    """The timeline's script, where there is something to draw."""
    part = report.timeline
    return f"<script>{script()}</script>\n" if part is not None and (part.slices or part.merged) else ""


@cache
def _style() -> str:
    return (files(__package__) / "report.css").read_text(encoding="utf-8")


def _lead(report: Report) -> Markup:
    run = report.summary["run"]
    parts = [
        run["device"] + (" (emulated: times are what the CPU took)" if run["emulated"] else ""),
        f"torch {run['versions']['torch']}" if run["versions"].get("torch") else "",
        run["start"],
        q.plural(report.facts.events, "event"),
        f"rank {run['rank']} of {run['world_size']}" if run["world_size"] > 1 else "",
    ]
    return element("p", " · ".join(p for p in parts if p), class_="soft")


def _overview(report: Report) -> Markup:
    data = report.summary
    steps, breakdown, found = data["steps"], data["breakdown"], data["alerts"]
    figures = []
    if data["selection"]["period"] == "range":
        mean = breakdown["total_ns"] / max(breakdown["steps"], 1)
        figures.append((q.duration(mean), f"mean of {q.plural(breakdown['steps'], 'step')}"))
    elif steps["enough"]:
        figures.append((q.duration(steps["median_ns"]), f"median step, {steps['steady']} steady"))
    figures.append((q.duration(data["run"]["duration_ns"]), "recorded"))
    for severity, n in found["counts"].items():
        if n:
            figures.append((q.count(n), f"{severity} {'alert' if n == 1 else 'alerts'}"))
    if data["compilation"]["compiles"]:
        figures.append((q.duration(data["compilation"]["wall_ns"]), "of compiling"))
    items = [
        element("li", element("b", f["title"]), " ", _place(f["file"], f["line"]),
                element("div", f["evidence"] + (f" ({f['gain']})" if f["gain"] else ""), class_="soft"))
        for f in data["findings"]
    ]  # fmt: skip
    parts = [p for p in breakdown["parts"] if p["ns"] > 0]
    per_step, ranged = breakdown["steps"] > 0, data["selection"]["period"] == "range"
    rows = [
        (join((charts.swatch(p["key"]), p["label"])), q.duration(p["per_step_ns"] if per_step else p["ns"]),
         q.share(p["share"]))
        for p in parts
    ]  # fmt: skip
    shown = join(element("div", element("b", a), element("span", b), class_="figure") for a, b in figures)
    scope = f"{data['selection']['note']}. Times are {data['time']['text']}."
    return join(
        (
            element("div", shown, class_="figures"),
            element("p", scope[:1].upper() + scope[1:], class_="note"),
            element("h3", "What to do first"),
            element("ol", join(items), class_="findings") if items
            else element("p", "Nothing stands out: no line, wait or step passes a threshold."),
            element("h3", ("A step" if ranged else "A steady step") if per_step else "The run"),
            charts.bars(parts) if parts else "",
            table(("part", "a step" if per_step else "time", "share"), rows, (1, 2)) if rows else
            element("p", "No time was recorded."),
        )
    )  # fmt: skip


def _place(file: str, line: int) -> Markup:
    return element("code", f"{short_file(file)[-60:]}:{line}", class_="place") if file else Markup("")


def _alerts(report: Report) -> Markup:
    found = report.alerts
    if not report.shown:
        if found.observed:
            return element(
                "p", "Nothing was compiled again without need, no graph broke, no line kept needing new artifacts."
            )
        return element(
            "p", f"Compilation was not observed, so there can be no alerts about it: {found.reason}.", class_="soft"
        )
    more = len(found.alerts) + found.left_out - len(report.shown)
    notes = [f"{q.plural(more, 'more alert')} of least weight not listed."] if more > 0 else []
    notes += found.notes
    if found.limits:
        notes.append(f"Limits: {'; '.join(found.limits)}.")
    return join(
        (
            join(_alert(a, report.excerpts.get(a.id, ())) for a in report.shown),
            join(element("p", n, class_="note") for n in notes),
        )
    )


def _alert(alert: Alert, excerpts: Sequence[Excerpt]) -> Markup:
    cost = f", {q.duration(alert.cost_ns)}, {q.share(alert.share)} of the run" if alert.cost_ns > 0 else ""
    facts = f"{q.plural(alert.count, 'time')}{cost}" + (f"; {alert.cause.replace('_', ' ')}" if alert.cause else "")
    change: list[object] = []
    if alert.expected or alert.actual:
        change = [
            "Compiled for ", code(f"{alert.source} {alert.expected}".strip() or NOT_OBSERVED), ", called with ",
            code(alert.actual or NOT_OBSERVED), ".",
        ]  # fmt: skip
    guard = "\n".join(alert.guard.splitlines()[:MOST_REASON_LINES])
    times = [
        (q.duration(o.start), str(o.step) if o.step >= 0 else "–", code(o.compile_id) or "–",
         code(f"{o.expected or NOT_OBSERVED} → {o.actual or NOT_OBSERVED}", 200) if o.expected or o.actual else "–",
         q.duration(o.cost_ns) if o.cost_ns > 0 else "–", _place(o.caller_file, o.caller_line) or "–")
        for o in alert.occurrences[:MOST_OCCURRENCES]
    ]  # fmt: skip
    hidden = len(alert.occurrences) + alert.more - len(times)
    body = (
        element("h3", element("span", alert.severity, class_=f"level {alert.severity}"), " ", alert.title),
        element("p", _place(*alert.user_line), " ", element("span", facts, class_="soft")),
        element("p", alert.advice, class_="advice"),
        element("p", alert.evidence),
        element("p", *change) if change else "",
        join(_source(e) for e in excerpts),
        element("pre", join(join((text(line, 500), "\n")) for line in guard.splitlines())) if guard else "",
        table(("at", "step", "compile id", "change", "cost", "called at"), times, (0, 1, 4)) if times else "",
        element("p", f"{q.plural(hidden, 'more time')} not listed.", class_="note") if hidden > 0 else "",
        element("p", "id ", code(alert.id), class_="note"),
    )
    return element("article", *body, class_=f"alert {alert.severity}", id=f"alert-{alert.id}")


def _source(excerpt: Excerpt) -> Markup:
    lines = []
    for number, content in excerpt.lines:
        row = join((element("span", f"{number:>5}  ", class_="number"), text(content, 320)))
        lines.append(element("mark", row) if number == excerpt.line else row)
    return join((element("p", code(f"{excerpt.file}:{excerpt.line}"), class_="soft"),
                 element("pre", Markup("\n".join(lines)))))  # fmt: skip


def _steps(data: Mapping[str, Any]) -> Markup:
    steps = data["steps"]
    chart, said = charts.steps(steps["durations_ns"], steps["periods"], steps["median_ns"])
    if not chart:
        return element("p", f"{steps['note'] or 'Steps were not observed'}.")
    facts = [f"{q.plural(steps['count'], 'step')} {steps['rule_text']}".strip(), f"{steps['steady']} steady"]
    if steps["enough"]:
        facts.append(f"median {q.duration(steps['median_ns'])}")
        if steps["low_ns"] is not None and steps["high_ns"] is not None:
            facts.append(f"from {q.duration(steps['low_ns'])} to {q.duration(steps['high_ns'])}")
    return join((element("p", f"{', '.join(facts)}; {steps['time']}.", class_="note"), chart,
                 element("p", said, class_="note") if said else "",
                 element("p", f"{steps['note']}.", class_="note") if steps["note"] else ""))  # fmt: skip


def _lines(data: Mapping[str, Any]) -> Markup:
    per_step = data["selection"]["steps"] > 0
    rows = [
        (_place(r.get("file", ""), r["line"]) or element("span", "no line", class_="soft"),
         code(r.get("code", ""), 160) or code(r.get("function", ""), 160), _self(r, per_step), q.share(r["share"]),
         q.per_step(r["launches_per_step"] if per_step else r["launches"]), q.duration(r["median_ns"]),
         code(r.get("module", ""), 80) or "–")
        for r in data["lines"]["rows"]
    ]  # fmt: skip
    head = ("line", "code", _self_head(per_step), "share", "launches", "median", "module")
    return _with_rest(table(head, rows, (2, 3, 4, 5)), data["lines"], data, "line")


def _costs(data: Mapping[str, Any], key: str, name: str, column: str) -> Markup:
    per_step = data["selection"]["steps"] > 0
    rows = [
        (code(r.get(column, ""), 160) or element("span", f"no {name}", class_="soft"), _self(r, per_step),
         q.share(r["share"]), q.per_step(r["launches_per_step"] if per_step else r["launches"]),
         q.per_step(r["calls_per_step"] if per_step else r["calls"]), q.duration(r["median_ns"]))
        for r in data[key]["rows"]
    ]  # fmt: skip
    head = (name, _self_head(per_step), "share", "launches", "calls", "median")
    return _with_rest(table(head, rows, (1, 2, 3, 4, 5)), data[key], data, name)


def _self_head(per_step: bool) -> str:
    return "self a step" if per_step else "self"


def _self(row: Mapping[str, Any], per_step: bool) -> str:
    return q.duration(row["self_per_step"] if per_step else row["self_ns"])


def _with_rest(made: Markup, found: Mapping[str, Any], data: Mapping[str, Any], name: str) -> Markup:
    if not found["rows"]:
        return element("p", "No operator was recorded.")
    notes = [f"{data['time']['name'].capitalize()}; share of {data['selection']['whole']}."]
    hidden = found["total_rows"] - len(found["rows"])
    if hidden > 0:
        whole = data["selection"]["whole_ns"]
        part = q.share(found["rest_self_ns"] / whole) if whole else "0"
        notes.append(f"{q.plural(hidden, f'more {name}')} with {part} of it.")
    notes += [f"{n[:1].upper()}{n[1:]}." for n in found["notes"]]
    return join((made, element("p", " ".join(notes), class_="note")))


def _compiling(data: Mapping[str, Any]) -> Markup:
    costs = data["compilation"]
    if not costs["compiles"] and not costs["eager"]:
        return Markup("")
    rows = [
        (code(r["function"], 120) or "–", _place(r["file"], r["line"]), q.duration(r["cost_ns"]), q.share(r["share"]),
         q.count(r["compiles"]), q.count(r["recompiles"]))
        for r in costs["functions"]
    ]  # fmt: skip
    head = ("function", "line", "time", "share", "compiles", "again")
    return join((element("p", costs["text"]), table(head, rows, (2, 3, 4, 5)) if rows else "",
                 element("p", costs["assumption"], class_="note") if costs["assumption"] else ""))  # fmt: skip


def _compiled(data: Mapping[str, Any]) -> Markup:
    compiled = data["compiled"]
    if not compiled["lines"]:
        return Markup("")
    per_step = data["selection"]["steps"] > 0
    rows = [
        (_place(r["file"], r["line"]) or "no line", code(r["code"] or r["function"], 160),
         f"≈ {q.duration(r['per_step_ns'] if per_step else r['ns'])}", q.share(r["share"]))
        for r in compiled["lines"]
    ]  # fmt: skip
    head = ("line", "code", "time a step" if per_step else "time", "share")
    return join((table(head, rows, (2, 3)), element("p", compiled["estimate"], class_="note")))


def _environment(report: Report) -> Markup:
    run, facts = report.summary["run"], report.facts
    about = [
        ("trace", run["name"]),
        ("size", f"{facts.file_bytes:,} B" if facts.file_bytes >= 0 else ""),
        ("script", run["script"]),
        ("started", run["start"]),
        ("device", run["device"]),
        ("processes and threads", f"{run['processes']}, {run['threads']}"),
        ("recorder", run["recorder"] + (f": {run['recorder_reason']}" if run["recorder_reason"] else "")),
        ("operator time with a source line", q.share(facts.op_time_with_line)),
        *((f"{name} version", version) for name, version in list(run["versions"].items())[:40]),
        *((LOSS_COUNTS[key], q.count(n)) for key, n in facts.losses.items()),
    ]
    seen = [(c.name, "observed" if c.observed else NOT_OBSERVED, c.reason) for c in facts.capabilities[:60]]
    return join(
        (
            definitions((name, value) for name, value in about if value),
            element("h3", "What could be seen"),
            table(("what", "", "limits, or why not"), seen),
            element("p", "Not observed: the recording could not look, not that there was none.", class_="note"),
            join((element("h3", "Settings of the recording"), definitions(report.environment)))
            if report.environment else "",
        )
    )  # fmt: skip
