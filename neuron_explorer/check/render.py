"""A result as text, JSON, JUnit XML, Markdown, and annotations for GitHub."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.markdown import escaped
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.counts import Count
from neuron_explorer.check.differences import Difference
from neuron_explorer.check.groups import GROUPS
from neuron_explorer.check.result import NOT_COMPARED, OK, Result
from neuron_explorer.check.time_verdict import Compared
from neuron_explorer.check.words import budget_line, cause, from_to, name_of

JSON_VERSION: Final = 1
"""Raised when a key of the JSON form changes its meaning."""
MOST_SHOWN: Final = 25
MOST_ANNOTATIONS: Final = 10
MOST_MARKDOWN: Final = 1 << 20
_TIMED: Final = ("regression", "suspicious", "improvement")
_XML_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def tool_line() -> str:
    """Name and version of the tool: an exit code of 1 may also be another program's."""
    try:
        return f"neuron-explorer {version('neuron-explorer')} check"
    except PackageNotFoundError:
        return "neuron-explorer check"


def headline(result: Result) -> str:
    """The result in one sentence."""
    code = result.exit_code
    if code == OK:
        extra = f"; {q.plural(len(result.improvements), 'improvement')}" if result.improvements else ""
        return f"ok: {q.plural(result.compared, 'key')} compared{extra}"
    if code == NOT_COMPARED:
        unseen = q.plural(len(result.unseen), "group")
        what = f"{unseen} not observed" if result.compared else "nothing was compared"
        return f"not compared: {what}"
    parts = []
    if result.differences is not None and result.differences.lost:
        parts.append("the recording saw less than half of the launches")
    if result.blocking:
        parts.append(q.plural(len(result.blocking), "regression"))
    if result.exceeded:
        parts.append(q.plural(len(result.exceeded), "budget") + " exceeded")
    if result.config.time == "block" and any(c.verdict == "regression" for _, c in result.times):
        parts.append("slower")
    if not parts:
        parts.append(q.plural(len(result.improvements), "improvement") + " not in the baseline")
    return "failed: " + ", ".join(parts)


def render_text(result: Result) -> str:
    """For a terminal or a log, the worst first."""
    lines = [tool_line(), headline(result)]
    lines += [f"note: {plain(note, 400)}" for note in result.notes]
    if result.differences is not None:
        lines += [f"note: {name} was {plain(before)}, is {plain(after)}" for name, before, after in
                  result.differences.apart]  # fmt: skip
    lines += [f"budget exceeded: {budget_line(b)}" for b in result.exceeded]
    for budget in result.exceeded:
        lines += [f"    {n:,}  {f'{file}:{line}' if line > 0 else ' '.join(key)}" for key, n, file, line in
                  budget.places[:5]]  # fmt: skip
    lines += _section("regression", result.blocking)
    lines += [f"not observed: {plain(what)}: {plain(reason, 300)}" + (f"; {how}" if how else "")
              for what, reason, how in result.unseen]  # fmt: skip
    lines += _section("suspicious", result.warnings)
    lines += _section("improvement", result.improvements)
    lines += [f"unstable, never blocks: {name_of(d)}: {from_to(d)}" for d in result.unstable[:5]]
    if len(result.unstable) > 5:
        lines.append(f"    and {q.plural(len(result.unstable) - 5, 'more unstable key')}")
    for a in result.allowed:
        lines.append(f"allowed: {name_of(a.difference)}: {from_to(a.difference)} ({plain(a.by.reason)})")
    for e in result.expired:
        lines.append(f"allowance expired on {e.until}: {plain(e.reason)} ({e.rule or e.place or e.op})")
    lines += [budget_line(b) for b in result.budgets if not b.exceeded and b.value is not None]
    lines += [time_line(name, c) for name, c in result.times if c.verdict in _TIMED or name == "step"]
    if result.accept and (result.blocking or result.improvements or result.warnings):
        lines += ["", f"accept all of it: {result.accept}"]
    return "\n".join(lines) + "\n"


def time_line(name: str, c: Compared) -> str:
    """What a comparison of times found."""
    runs = f"{c.runs[0]} and {c.runs[1]} runs"
    interval = f", {c.low:.2f} to {c.high:.2f} times" if c.low else ""
    return (
        f"time, {c.verdict}: {plain(name, 200)}: {q.duration(c.before_ns)} → {q.duration(c.after_ns)}{interval} "
        f"({runs}): {c.why}; from {100 * c.detectable:.0f} % on it would be found"
    )


def _section(word: str, found: Iterable[Difference]) -> list[str]:
    rows = list(found)
    lines = []
    for d in rows[:MOST_SHOWN]:
        lines.append(f"{word}: {d.group.title}: {name_of(d)}: {from_to(d)}")
        if word == "regression":
            lines.append(f"    likely: {cause(d)}")
    if len(rows) > MOST_SHOWN:
        lines.append(f"    and {q.plural(len(rows) - MOST_SHOWN, 'more ' + word)}")
    return lines


def _count(count: Count | None) -> list[int] | None:
    return None if count is None else [count.low, count.high]


def _difference(d: Difference) -> dict[str, Any]:
    return {
        "group": d.group.name, "key": dict(zip(d.group.fields, d.key, strict=True)), "before": _count(d.before),
        "after": _count(d.after), "change": d.change, "verdict": d.verdict, "file": d.file, "line": d.line,
        "per": d.group.per, "likely": cause(d),
    }  # fmt: skip


def render_json(result: Result) -> str:
    """For programs. ``check_version`` says what the keys mean."""
    found = result.differences
    document: Mapping[str, Any] = {
        "check_version": JSON_VERSION,
        "tool": tool_line(),
        "exit_code": result.exit_code,
        "headline": headline(result),
        "compared": result.compared,
        "lost_capture": bool(found and found.lost),
        "environment": [{"name": n, "before": b, "after": a} for n, b, a in (found.apart if found else ())],
        "regressions": [_difference(d) for d in result.blocking],
        "suspicious": [_difference(d) for d in result.warnings],
        "improvements": [_difference(d) for d in result.improvements],
        "unstable": [_difference(d) for d in result.unstable],
        "allowed": [_difference(a.difference) | {"reason": a.by.reason} for a in result.allowed],
        "expired": [{"rule": e.rule, "place": e.place, "op": e.op, "reason": e.reason, "until": str(e.until)}
                    for e in result.expired],
        "budgets": [{"name": b.kind.name, "limit": b.limit, "value": b.value, "exceeded": b.exceeded,
                     "allowed": b.allowed, "reason": b.reason} for b in result.budgets],
        "times": [{"name": n, "verdict": c.verdict, "before_ns": c.before_ns, "after_ns": c.after_ns,
                   "low": c.low or None, "high": c.high if c.low else None, "p": c.p, "adjusted": c.adjusted,
                   "detectable": c.detectable if math.isfinite(c.detectable) else None, "runs": list(c.runs),
                   "why": c.why} for n, c in result.times],
        "not_observed": [{"what": w, "reason": r, "how": h} for w, r, h in result.unseen],
        "notes": list(result.notes),
        "accept": result.accept,
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def render_junit(result: Result) -> str:
    """JUnit XML: a case for each group and each budget, so that a CI system shows which rule failed."""
    cases = []
    failures = skipped = 0
    unseen = {u.group.name: u for u in (result.differences.unseen if result.differences else ())}
    for name, group in GROUPS.items():
        if result.differences is None:
            break
        mine = [d for d in result.blocking if d.group.name == name]
        lost = name == "launches" and result.differences.lost
        body = ""
        if mine or lost:
            failures += 1
            said = "\n".join(f"{name_of(d)}: {from_to(d)}; likely: {cause(d)}" for d in mine[:MOST_SHOWN])
            head = f"{len(mine)} regressions" if mine else "the recording saw less than half of the launches"
            body = f"<failure message={_attribute(head)}>{_text(said)}</failure>"
        elif name in unseen:
            failures += 1
            head = _attribute("not observed: " + unseen[name].reason)
            body = f"<failure message={head}>{_text(unseen[name].how)}</failure>"
        elif not result.counts.groups[name].observed:
            skipped += 1
            body = f"<skipped message={_attribute(result.counts.groups[name].reason)}/>"
        cases.append(f'<testcase classname="neuron-explorer.baseline" name={_attribute(group.title)}>{body}</testcase>')
    for budget in result.budgets:
        body = ""
        if budget.exceeded or budget.value is None:
            failures += 1
            body = f"<failure message={_attribute(budget_line(budget))}/>"
        name = _attribute(budget.kind.name)
        cases.append(f'<testcase classname="neuron-explorer.budget" name={name}>{body}</testcase>')
    if not cases:
        failures += 1
        nothing = '<failure message="nothing was compared"/>'
        cases.append(f'<testcase classname="neuron-explorer" name="check">{nothing}</testcase>')
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuite name="neuron-explorer check" tests="{len(cases)}" failures="{failures}" skipped="{skipped}" '
        'errors="0">\n' + "\n".join(cases) + "\n</testsuite>\n"
    )


def _text(text: str) -> str:
    return escape(_XML_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def _attribute(text: str) -> str:
    return quoteattr(_XML_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", plain(text, 400)))


def render_markdown(result: Result) -> str:
    """For the summary of a CI step: under 1 MiB, the worst first."""
    mark = {OK: "✅", NOT_COMPARED: "⚠️"}.get(result.exit_code, "❌")
    lines = [f"### {mark} {escaped(tool_line())}: {escaped(headline(result))}", ""]
    for title, found in (("Regressions", result.blocking), ("Suspicious", result.warnings),
                         ("Improvements", result.improvements)):  # fmt: skip
        if found:
            lines += [f"#### {title}", "", "| what | where | change | likely |", "| --- | --- | --- | --- |"]
            for d in found[:200]:
                cells = (d.group.title, name_of(d), from_to(d), cause(d))
                lines.append(f"| {' | '.join(map(escaped, cells))} |")
            lines += ["", *([f"{len(found) - 200} more"] if len(found) > 200 else []), ""]
    if result.budgets:
        lines += ["#### Budgets", ""]
        lines += [f"- {'❌ ' if b.exceeded else ''}{escaped(budget_line(b))}" for b in result.budgets]
        lines.append("")
    for what, reason, how in result.unseen:
        lines.append(f"- not observed: {escaped(what)}: {escaped(reason)}; {escaped(how)}")
    timed = [time_line(n, c) for n, c in result.times if c.verdict in _TIMED or n == "step"]
    if timed:
        lines += ["#### Time", "", *(f"- {escaped(line)}" for line in timed[:50])]
    if result.accept and (result.blocking or result.improvements):
        lines += ["", f"Accept: `{escaped(result.accept)}`"]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) >= MOST_MARKDOWN:
        text = text.encode()[: MOST_MARKDOWN - 64].decode("utf-8", "ignore").rsplit("\n", 1)[0] + "\n\n(cut)\n"
    return text


def github_annotations(result: Result) -> list[str]:
    """Workflow commands that show findings beside the lines of a pull request; at most ten."""
    lines = []
    for d in result.blocking:
        if len(lines) == MOST_ANNOTATIONS:
            break
        where = f" file={_property(d.file)},line={d.line}" if d.file and d.line > 0 else ""
        lines.append(f"::error{where}{',' if where else ' '}title={_property(d.group.title)}::"
                     f"{_data(f'{name_of(d)}: {from_to(d)}. Likely: {cause(d)}')}")  # fmt: skip
    for budget in result.exceeded:
        if len(lines) == MOST_ANNOTATIONS:
            break
        file, line = next(((f, n) for _, _, f, n in budget.places if f and n > 0), ("", -1))
        where = f" file={_property(file)},line={line}," if file else " "
        lines.append(f"::error{where}title={_property(budget.kind.name)}::{_data(budget_line(budget))}")
    return lines


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


