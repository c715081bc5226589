"""A result as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from neuron_explorer.check.counts import Count
from neuron_explorer.check.differences import Difference
from neuron_explorer.check.headline import headline, tool_line
from neuron_explorer.check.result import Result
from neuron_explorer.check.words import cause

JSON_VERSION: Final = 1
"""Raised when a key of the JSON form changes its meaning."""


def _count(count: Count | None) -> list[int] | None:
    return None if count is None else [count.low, count.high]


def _difference(d: Difference, among: Sequence[Difference] = ()) -> dict[str, Any]:
    return {
        "group": d.group.name, "key": dict(zip(d.group.fields, d.key, strict=True)), "before": _count(d.before),
        "after": _count(d.after), "change": d.change, "verdict": d.verdict, "file": d.file, "line": d.line,
        "per": d.group.per, "likely": cause(d, among),
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
        "lost_why": found.lost if found else "",
        "another_program": bool(found and found.foreign),
        "environment": [{"name": n, "before": b, "after": a} for n, b, a in (found.apart if found else ())],
        "regressions": [_difference(d, result.blocking) for d in result.blocking],
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
        "proposed_baseline": result.proposed,
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"
