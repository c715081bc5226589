"""A result as JUnit XML."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.groups import GROUPS
from neuron_explorer.check.result import Result
from neuron_explorer.check.words import budget_line, cause, from_to, name_of

MOST_SHOWN: Final = 25
_XML_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: Result) -> str:
    """JUnit XML: a case for each group and each budget, so that a CI system shows which rule failed."""
    cases = []
    failures = skipped = 0
    unseen = {u.group.name: u for u in (result.differences.unseen if result.differences else ())}
    for name, group in GROUPS.items():
        if result.differences is None or result.differences.foreign:
            break
        mine = [d for d in result.blocking if d.group.name == name]
        lost = name == "launches" and bool(result.differences.lost)
        body = ""
        if mine or lost:
            failures += 1
            said = "\n".join(f"{name_of(d)}: {from_to(d)}; likely: {cause(d, mine)}" for d in mine[:MOST_SHOWN])
            head = q.plural(len(mine), "regression") if mine else result.differences.lost
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
