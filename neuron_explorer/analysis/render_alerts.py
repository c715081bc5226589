"""Alerts and the cost of compiling, as sections of the summary in a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.compile_costs import cause_label
from neuron_explorer.analysis.markdown import code, escaped, markdown_table
from neuron_explorer.analysis.plain import plain, short_file

if TYPE_CHECKING:
    from rich.console import Console

_STYLES: Final = {"high": "bold red", "medium": "yellow", "low": "dim"}
_NOTHING: Final = "Nothing was compiled again without need, no graph broke, no line kept needing new artifacts."


def alerts_section(console: Console, data: Mapping[str, Any]) -> None:
    """The alerts, each with its evidence and advice, wrapped to the width of the terminal."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    found = data["alerts"]
    console.print()
    title = Text("Alerts", style="bold")
    counted = counts_text(found["counts"])
    if counted:
        title.append("  " + counted, style="bold cyan")
    console.print(title)
    if not found["rows"]:
        console.print(Text("  " + plain(_silence(data), 400), style="dim"))
    for alert in found["rows"]:
        grid = Table.grid(expand=True, padding=(0, 0, 0, 1))
        grid.add_column(width=6)
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        file, line = alert["user_line"]
        place = f"{plain(short_file(file), 40)}:{line}" if file else ""
        grid.add_row(
            Text(alert["severity"], style=_STYLES.get(alert["severity"], "")),
            Text(plain(alert["title"]), style="bold"), Text(place, style="cyan"),
        )  # fmt: skip
        console.print(grid)
        below = Table.grid(expand=True, padding=(0, 0, 0, 1))
        below.add_column(width=6)
        below.add_column(ratio=1)
        below.add_row("", Text(plain(alert["evidence"], 500), style="dim"))
        below.add_row("", Text("→ " + plain(alert["advice"], 500)))
        console.print(below)
    more = found["total"] - len(found["rows"])
    if more > 0:
        console.print(Text(f"  {q.plural(more, 'more alert')}", style="dim"))
    if _about_compiling(data):
        for line in _limits(found):
            console.print(Padding(Text(plain(line, 600), style="dim"), (0, 0, 0, 2)))


def _about_compiling(data: Mapping[str, Any]) -> bool:
    """Something was compiled, or an alert says so: what could not be seen of it matters."""
    return bool(data["alerts"]["rows"] or data["compilation"]["compiles"])


def _limits(found: Mapping[str, Any]) -> list[str]:
    """What the recorder could not see, in one line, and what of the trace was not looked at."""
    limits = [str(x).rstrip(".") for x in found["limits"]]
    return [*(["Limits: " + "; ".join(limits) + "."] if limits else []), *map(str, found["notes"])]


def _silence(data: Mapping[str, Any]) -> str:
    found = data["alerts"]
    if found["observed"]:
        return _NOTHING
    return f"Compilation was not observed, so there can be no alerts about it: {found['reason']}."


def counts_text(counts: Mapping[str, int]) -> str:
    """``2 high, 1 low``."""
    return ", ".join(f"{number} {severity}" for severity, number in counts.items() if number)


def compiling_section(console: Console, data: Mapping[str, Any]) -> None:
    """What compiling cost; nothing where nothing was compiled."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    costs = data["compilation"]
    if not costs["compiles"] and not costs["eager"]:
        return
    console.print()
    title = Text("Compiling", style="bold")
    title.append("  " + q.duration(costs["wall_ns"]), style="bold cyan")
    title.append("  " + plain(costs["text"]), style="dim")
    console.print(title)
    if costs["functions"]:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True, header_style="dim", show_edge=False)
        table.add_column("function", no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("line", no_wrap=True, overflow="ellipsis", max_width=max(18, console.width // 4))
        for heading in ("time", "share", "compiles", "again"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in costs["functions"]:
            place = f"{plain(short_file(row['file']), 60)}:{row['line']}" if row["file"] else ""
            table.add_row(
                Text(plain(row["function"]) or "–"), Text(place, style="cyan"), q.duration(row["cost_ns"]),
                q.share(row["share"]), q.count(row["compiles"]),
                q.count(row["recompiles"]) if row["recompiles"] else "–",
            )  # fmt: skip
        console.print(table)
        hidden = costs["total_functions"] - len(costs["functions"])
        if hidden > 0:
            console.print(Text(f"  {q.plural(hidden, 'more function')}", style="dim"))
    for line in _sentences(costs):
        console.print(Padding(Text(plain(line, 600), style="dim"), (0, 0, 0, 2)))


def compiled_section(console: Console, data: Mapping[str, Any]) -> None:
    """Lines of compiled code; nothing where no graph was launched."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    compiled = data["compiled"]
    if not compiled["lines"]:
        return
    per_step = data["selection"]["steps"] > 0
    console.print()
    title = Text("Lines of compiled code", style="bold")
    title.append("  an estimate; " + plain(f"{data['time']['name']} of compiled launches"), style="dim")
    console.print(title)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True, header_style="dim", show_edge=False)
    table.add_column("line", no_wrap=True, overflow="ellipsis", max_width=max(18, console.width // 4))
    table.add_column("code", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("time/step" if per_step else "time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("operators", no_wrap=True, overflow="ellipsis", max_width=30)
    for row in compiled["lines"]:
        place = f"{plain(short_file(row['file']), 60)}:{row['line']}" if row["file"] else "no line"
        table.add_row(
            Text(place, style="cyan"), Text(plain(row["code"], 160) or plain(row["function"], 160)),
            "≈ " + q.duration(row["per_step_ns"] if per_step else row["ns"]), q.share(row["share"]),
            Text(plain(_ops(row["ops"]), 80), style="dim"),
        )  # fmt: skip
    console.print(table)
    hidden = compiled["total_lines"] - len(compiled["lines"])
    if hidden > 0:
        console.print(Text(f"  {q.plural(hidden, 'more line')}", style="dim"))
    console.print(Padding(Text(plain(compiled["estimate"], 600), style="dim"), (0, 0, 0, 2)))


def _ops(ops: Sequence[Sequence[Any]]) -> str:
    """``linear ×2, relu``, by the last part of their names."""
    return ", ".join(f"{str(name).rsplit('.', 1)[-1]}" + (f" ×{n}" if n > 1 else "") for name, n in ops[:6])


def _sentences(costs: Mapping[str, Any]) -> list[str]:
    lines = []
    phases = [f"{p['label']} {q.duration(p['self_ns'])}" for p in costs["phases"][:6] if p["self_ns"] > 0]
    if phases:
        lines.append("Where: " + ", ".join(phases) + ".")
    causes = [f"{cause_label(c['cause'])} {q.duration(c['cost_ns'])} ({c['count']})" for c in costs["causes"]]
    if len(causes) > 1:
        lines.append("Why: " + ", ".join(causes) + ".")
    cache = [
        f"{name.replace('_', ' ')} " + ", ".join(f"{n} {result}" for result, n in sorted(results.items()))
        for name, results in costs["cache"].items()
    ]
    if cache:
        lines.append("Caches: " + "; ".join(cache) + ".")
    cold = f"A cold start costs about {q.duration(costs['cold_start_ns'])} of compiling."
    if costs["cached_ns"]:
        cold += f" A warm cache would save {q.duration(costs['cached_ns'])} of this run's."
    lines.append(f"{cold} {costs['assumption']}")
    return lines


def alerts_markdown(data: Mapping[str, Any]) -> list[str]:
    """The sections as lines of Markdown."""
    found, costs = data["alerts"], data["compilation"]
    out = ["", "## Alerts", ""]
    for alert in found["rows"]:
        file, line = alert["user_line"]
        place = f" {code(f'{short_file(file)}:{line}')}" if file else ""
        out.append(
            f"- **{alert['severity']}: {escaped(alert['title'])}**{place}: {escaped(alert['evidence'])} "
            f"*{escaped(alert['advice'])}*"
        )
    if found["total"] > len(found["rows"]):
        out.append(f"- {q.plural(found['total'] - len(found['rows']), 'more alert')}")
    if not found["rows"]:
        out.append(escaped(_silence(data)))
    if _about_compiling(data):
        for line in _limits(found):
            out += ["", escaped(line)]
    if costs["compiles"] or costs["eager"]:
        out += ["", "## Compiling", "", escaped(costs["text"]), ""]
        if costs["functions"]:
            out += markdown_table(
                ["function", "line", "time", "share", "compiles", "again"],
                [
                    [
                        code(r["function"]), code(f"{short_file(r['file'])}:{r['line']}" if r["file"] else ""),
                        q.duration(r["cost_ns"]), q.share(r["share"]), q.count(r["compiles"]), q.count(r["recompiles"]),
                    ]
                    for r in costs["functions"]
                ],
                right=(2, 3, 4, 5),
            )  # fmt: skip
            out.append("")
        for line in _sentences(costs):
            out += [escaped(line), ""]
        out.pop()
    return out + _compiled_markdown(data)


def _compiled_markdown(data: Mapping[str, Any]) -> list[str]:
    compiled = data["compiled"]
    if not compiled["lines"]:
        return []
    per_step = data["selection"]["steps"] > 0
    return [
        "", "## Lines of compiled code (an estimate)", "",
        *markdown_table(
            ["line", "code", "time/step" if per_step else "time", "share", "operators"],
            [
                [
                    code(f"{short_file(r['file'])}:{r['line']}" if r["file"] else ""), code(r["code"]),
                    q.duration(r["per_step_ns"] if per_step else r["ns"]), q.share(r["share"]), code(_ops(r["ops"])),
                ]
                for r in compiled["lines"]
            ],
            right=(2, 3),
        ),
        "", escaped(compiled["estimate"]),
    ]  # fmt: skip
