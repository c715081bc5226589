"""A result as Markdown, for the summary of a step."""

from __future__ import annotations

from typing import Final

from neuron_explorer.analysis.markdown import escaped
from neuron_explorer.analysis.plain import plain
from neuron_explorer.check.headline import headline, tool_line
from neuron_explorer.check.result import NOT_COMPARED, OK, Result
from neuron_explorer.check.words import budget_line, cause, from_to, name_of, time_line, timed

MOST_MARKDOWN: Final = 1 << 20


def render_markdown(result: Result) -> str:
    """For the summary of a CI step: under 1 MiB, the worst first."""
    mark = {OK: "✅", NOT_COMPARED: "⚠️"}.get(result.exit_code, "❌")
    lines = [f"### {mark} {escaped(tool_line())}: {escaped(headline(result))}", ""]
    apart = result.differences.apart if result.differences is not None else ()
    notes = [*(f"{name} was {before}, is {after}" for name, before, after in apart), *result.notes]
    lines += [*(f"- {escaped(plain(note, 400))}" for note in notes), *([""] if notes else [])]
    for title, found in (("Regressions", result.blocking), ("Suspicious", result.warnings),
                         ("Improvements", result.improvements)):  # fmt: skip
        if found:
            lines += [f"#### {title}", "", "| what | where | change | likely |", "| --- | --- | --- | --- |"]
            for d in found[:200]:
                cells = (d.group.title, name_of(d), from_to(d), cause(d, found))
                lines.append(f"| {' | '.join(map(escaped, cells))} |")
            lines += ["", *([f"{len(found) - 200} more"] if len(found) > 200 else []), ""]
    if result.budgets:
        lines += ["#### Budgets", ""]
        lines += [f"- {'❌ ' if b.exceeded else ''}{escaped(budget_line(b))}" for b in result.budgets]
        lines.append("")
    for what, reason, how in result.unseen:
        lines.append(f"- not observed: {escaped(what)}: {escaped(reason)}; {escaped(how)}")
    times = [time_line(n, c) for n, c in timed(result.times)]
    if times:
        lines += ["#### Time", "", *(f"- {escaped(line)}" for line in times[:50])]
    if result.accept and (result.blocking or result.improvements):
        command = plain(result.accept, 2000).replace("`", "'")  # nothing else is special inside of a code span
        lines += ["", f"Accept: `{command}`"]
    if result.proposed:
        shown = plain(result.proposed, 400).replace("`", "'")
        lines += ["", f"Proposed baseline of the counts of this run: `{shown}`"]
    text = "\n".join(lines) + "\n"
    if len(text.encode()) >= MOST_MARKDOWN:
        text = text.encode()[: MOST_MARKDOWN - 64].decode("utf-8", "ignore").rsplit("\n", 1)[0] + "\n\n(cut)\n"
    return text
