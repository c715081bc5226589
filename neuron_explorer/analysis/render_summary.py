"""The summary as text for a terminal, as Markdown and as JSON. Imports neither torch nor dash."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.markdown import code, escaped, markdown_table
from neuron_explorer.analysis.plain import plain, short_file
from neuron_explorer.analysis.render_alerts import alerts_markdown, alerts_section, compiled_section, compiling_section

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MIN_WIDTH: Final = 72
MAX_WIDTH: Final = 120

_COLOURS: Final = {
    "forward": "#4c78a8", "backward": "#7ba2cc", "recompute": "#a9c4de", "optimizer": "#2f5580",
    "other": "#8a97a8", "compile": "#a872b8", "collective": "#f28e2b", "copy": "#59b3ac",
    "fallback": "#e15759", "sync": "#a08060", "data_wait": "#d8b33a", "gc": "#a08060", "python": "#9aa3b2",
}  # fmt: skip
_SHADES: Final = "█▓▒░"


def render(data: Mapping[str, Any], format: str = "text") -> str:
    """The summary in a format: ``text``, ``json`` or ``markdown``. Raises ValueError for another."""
    renderers = {"text": render_text, "json": render_json, "markdown": render_markdown}
    if format not in renderers:
        raise ValueError(f"format must be one of {', '.join(renderers)}, not {format!r}")
    return renderers[format](data)


def render_json(data: Mapping[str, Any]) -> str:
    """The dictionary of ``summary()`` as JSON, all times in ns. ASCII: a terminal acts on some characters beyond it."""
    return json.dumps(data, indent=2)


def render_text(data: Mapping[str, Any], *, width: int | None = None, color: bool | None = None) -> str:
    """The summary for a terminal.

    ``width``: columns; by default those of the terminal, between 72 and 120.
    ``color``: by default only when standard output is a terminal and NO_COLOR is not set.
    """
    from io import StringIO

    from rich.console import Console

    if color is None:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    if width is None:
        width = shutil.get_terminal_size((100, 24)).columns
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, no_color=not color, color_system="truecolor" if color else None,
        highlight=False, markup=False, emoji=False, soft_wrap=False, legacy_windows=False,
    )  # fmt: skip
    _head(console, data)
    _findings(console, data)
    alerts_section(console, data)
    compiling_section(console, data)
    _step(console, data)
    _lines(console, data)
    compiled_section(console, data)
    _ops(console, data)
    _modules(console, data)
    _foot(console, data)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip() + "\n"


def _title(console: Console, title: str, detail: str = "", note: str = "") -> None:
    from rich.text import Text

    console.print()
    text = Text(title, style="bold")
    if detail:
        text.append("  " + detail, style="bold cyan")
    if note:
        text.append("  " + note, style="dim")
    console.print(text)


def _head(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    run, counts = data["run"], data["counts"]
    head = Text(plain(run["name"] or "trace"), style="bold")
    chips = [plain(run["device"])]
    if run["emulated"]:
        chips.append("emulated")
    if run["versions"].get("torch"):
        chips.append("torch " + plain(run["versions"]["torch"], 40))
    chips += [q.plural(counts["events"], "event"), f"{q.duration(run['duration_ns'])} recorded"]
    if run["processes"] > 1:
        chips.append(q.plural(run["processes"], "process", "processes"))
    head.append("  " + " · ".join(chips))
    console.print(head)
    said = f"Times are {data['time']['text']}."
    console.print(Text(said, style="dim"))
    console.print(Text(f"Figures cover {data['selection']['note']}.", style="dim"))


def _findings(console: Console, data: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    _title(console, "What to do first")
    if not data["findings"]:
        console.print(Text("  Nothing stands out: no line, wait or step passes a threshold.", style="dim"))
        return
    for number, finding in enumerate(data["findings"], 1):
        style = {"problem": "red", "cost": "yellow"}.get(finding["level"], "dim")
        grid = Table.grid(expand=True, padding=(0, 0, 0, 1))
        grid.add_column(width=3, justify="right")
        grid.add_column(ratio=1)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_row(
            Text(f"{number}.", style=style), Text(plain(finding["title"]), style="bold"), Text(finding["gain"])
        )
        place = _place(finding)
        if finding["step"] >= 0:
            place = f"step {finding['step']}"
        grid.add_row("", Text(plain(finding["evidence"], 300), style="dim"), Text(place, style="cyan"))
        console.print(grid)


def _step(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    steps, breakdown = data["steps"], data["breakdown"]
    per_step = breakdown["steps"] > 0
    usual = data["selection"]["period"] != "range"
    if per_step and not usual:
        detail, note = q.duration(breakdown["total_ns"] / breakdown["steps"]), f"mean of {breakdown['steps']}"
    elif per_step and steps["enough"]:
        detail = q.duration(steps["median_ns"])
        note = f"median of {steps['steady']}, {q.duration(steps['low_ns'])} to {q.duration(steps['high_ns'])}"
    elif per_step:
        detail = q.duration(breakdown["total_ns"] / breakdown["steps"])
        note = f"mean of {steps['steady']}; {steps['note']}"
    else:
        detail, note = q.duration(breakdown["total_ns"]), steps["note"]
    if steps["rule_text"]:
        note += f"; {steps['rule_text']}"
    _title(console, ("A steady step" if usual else "A step") if per_step else "The run", detail, plain(note))
    parts = [p for p in breakdown["parts"] if p["ns"] > 0]
    if not parts:
        console.print(Text("  no operator was recorded", style="dim"))
        return
    bar_width = console.width - 2
    console.print(_bar(parts, breakdown["total_ns"], bar_width, console))
    table = _table(console)
    table.add_column("part")
    table.add_column("mean a step" if per_step else "time", justify="right")
    table.add_column("share", justify="right")
    table.add_column("events a step" if per_step else "events", justify="right")
    table.add_column("", ratio=1)
    for part in parts:
        colour = _COLOURS.get(part["key"], "")
        ns = part["per_step_ns"] if per_step else part["ns"]
        label = Text(_mark(parts.index(part), colour, console) + " ", style=colour)
        label.append(part["label"], style="default")
        events = part["events"] / max(breakdown["steps"], 1)
        table.add_row(
            label, q.duration(ns), q.share(part["share"]), q.per_step(events) if events else "–",
            Text("▇" * max(1, round(part["share"] * 30)), style=colour) if part["share"] >= 0.005 else "",
        )  # fmt: skip
    total = breakdown["total_ns"] / max(breakdown["steps"], 1)
    table.add_row(
        Text("  sum", style="dim"), Text(q.duration(total), style="dim"), Text("100.0 %", style="dim"), "", ""
    )
    console.print(table)
    for note in _step_notes(data):
        console.print(Text("  " + note, style="dim"))


def _step_notes(data: Mapping[str, Any]) -> list[str]:
    breakdown = data["breakdown"]
    notes = []
    if breakdown["note"]:
        notes.append(breakdown["note"] + ".")
    if breakdown["outside_steps_events"] and data["steps"]["observed"]:
        notes.append(
            f"Outside any step: {q.plural(breakdown['outside_steps_events'], 'operator')}, "
            f"{q.duration(breakdown['outside_steps_ns'])}."
        )
    if breakdown["other_threads_ns"]:
        notes.append(f"On other threads, beside these: {q.duration(breakdown['other_threads_ns'])}.")
    return notes


def _mark(index: int, colour: str, console: Console) -> str:
    """What fills a part of the bar: one block in colour, else a shade that tells parts apart."""
    return "█" if colour and not console.no_color else _SHADES[index % len(_SHADES)]


def _bar(parts: list[Mapping[str, Any]], total: int, width: int, console: Console) -> Any:
    from rich.text import Text

    bar = Text(" ")
    used, done = 0, 0
    for index, part in enumerate(parts):
        done += part["ns"]
        end = round(done / total * width) if total else 0
        colour = _COLOURS.get(part["key"], "")
        bar.append(_mark(index, colour, console) * (end - used), style=colour)
        used = end
    return bar


def _table(console: Console) -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True, header_style="dim", show_edge=False)


def _cost_columns(table: Table, per_step: bool, counted: str = "launches") -> None:
    table.add_column("self/step" if per_step else "self", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column(counted, justify="right", no_wrap=True)


def _costs(row: Mapping[str, Any], counted: str = "launches") -> list[str]:
    per_step = row["self_per_step"] is not None
    number = row[f"{counted}_per_step"] if per_step else row[counted]
    return [
        q.duration(row["self_per_step"] if per_step else row["self_ns"]),
        q.share(row["share"]),
        q.per_step(number),
    ]


def _lines(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    table_data = data["lines"]
    _title(console, "Lines that cost most", note=_whole(data))
    if not table_data["rows"]:
        console.print(Text("  no operator was recorded", style="dim"))
        return
    table = _table(console)
    table.add_column("line", no_wrap=True, overflow="ellipsis", max_width=max(18, console.width // 4))
    table.add_column("code", no_wrap=True, overflow="ellipsis", ratio=1)
    _cost_columns(table, _per_step(data))
    wide = console.width >= 96
    if wide:
        table.add_column("module", no_wrap=True, overflow="ellipsis", max_width=26)
    for row in table_data["rows"]:
        code = plain(row.get("code", ""), 160) or plain(row.get("function", ""), 160)
        cells: list[Any] = [Text(_place(row), style="cyan"), Text(code), *_costs(row)]
        table.add_row(*cells, *([Text(plain(row.get("module", "")) or "–", style="dim")] if wide else []))
    console.print(table)
    _rest(console, table_data, "line")


def _ops(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    table_data = data["ops"]
    if not table_data["rows"]:
        return
    _title(console, "Operators that cost most", note=_whole(data))
    table = _table(console)
    table.add_column("operator", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("phase", no_wrap=True)
    _cost_columns(table, _per_step(data), "calls")
    table.add_column("median", justify="right", no_wrap=True)
    for row in table_data["rows"]:
        table.add_row(
            Text(plain(row.get("name", ""))), Text(plain(row.get("phase", "")), style="dim"), *_costs(row, "calls"),
            q.duration(row["median_ns"]),
        )  # fmt: skip
    console.print(table)
    _rest(console, table_data, "operator")


def _modules(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    rows = [r for r in data["modules"]["rows"] if r["self_ns"] > 0]
    if not any(r.get("module") for r in rows):
        return
    _title(console, "Modules that cost most", note=_whole(data))
    table = _table(console)
    table.add_column("module", no_wrap=True, overflow="ellipsis", ratio=1)
    _cost_columns(table, _per_step(data))
    table.add_column("with submodules", justify="right", no_wrap=True)
    steps = data["selection"]["steps"]
    for row in rows:
        name = plain(row.get("module", "")) or "(outside any module)"
        total = row["total_ns"] / steps if steps else row["total_ns"]
        table.add_row(Text(name), *_costs(row), q.duration(total) if row.get("module") else "–")
    console.print(table)
    _rest(console, data["modules"], "module")


def _rest(console: Console, table_data: Mapping[str, Any], what: str) -> None:
    from rich.text import Text

    hidden = table_data["total_rows"] - len(table_data["rows"])
    if hidden <= 0:
        return
    part = table_data["rest_self_ns"] / table_data["self_ns"] if table_data["self_ns"] else 0.0
    console.print(Text(f"  {q.plural(hidden, 'more ' + what)}, {q.share(part)} of the table's self time", style="dim"))


def _foot(console: Console, data: Mapping[str, Any]) -> None:
    from rich.text import Text

    def block(title: str, rows: Iterable[tuple[str, str]]) -> None:
        _title(console, title)
        table = _table(console)
        table.add_column("", no_wrap=True)
        table.add_column("", ratio=1)
        table.show_header = False
        for key, value in rows:
            table.add_row(Text("  " + plain(key)), Text(plain(value, 400), style="dim"))
        console.print(table)

    counts, run = data["counts"], data["run"]
    recording = [(data["losses_text"][key], q.count(n)) for key, n in counts["losses"].items()]
    if counts["tracing_ops"]:
        text = f"{q.count(counts['tracing_ops'])}, counted but not kept"
        recording.append(("operators dispatched while compiling", text))
    if run["recorder"] == "twin":
        recording.append(("recorder", "the Python twin; " + (run["recorder_reason"] or "no native recorder")))
    if not run["finished"]:
        recording.append(("recording", "cut off: the program ended before it was stopped"))
    if run["recovered"]:
        recording.append(("recording", "recovered from a spool"))
    covered = data["attribution"]["op_time_with_line"]
    if covered is not None:
        recording.append(("operator time with a source line", q.share(covered)))
    if recording:
        block("The recording", recording)
    if data["not_observed"]:
        block("Not observed", [(n["what"], n["reason"] or "no reason given") for n in data["not_observed"]])


def _place(row: Mapping[str, Any]) -> str:
    if row.get("file"):
        return f"{plain(short_file(row['file']), 60)}:{row['line']}"
    reason = row.get("attribution")
    return f"no line ({plain(reason, 40).replace('_', ' ')})" if reason else ""


def _per_step(data: Mapping[str, Any]) -> bool:
    return data["selection"]["steps"] > 0


def _whole(data: Mapping[str, Any]) -> str:
    return f"{data['time']['name']}; share of {data['selection']['whole']}"


def render_markdown(data: Mapping[str, Any]) -> str:
    """The summary as GitHub-flavoured Markdown; names are code, never markup."""
    run, steps, breakdown = data["run"], data["steps"], data["breakdown"]
    per_step = breakdown["steps"] > 0
    out = [f"# {escaped(run['name'] or 'trace')}", ""]
    chips = [escaped(run["device"]) + (" (emulated)" if run["emulated"] else "")]
    if run["versions"].get("torch"):
        chips.append("torch " + escaped(run["versions"]["torch"]))
    chips += [q.plural(data["counts"]["events"], "event"), f"{q.duration(run['duration_ns'])} recorded"]
    said = f"Times are {escaped(data['time']['text'])}. Figures cover {escaped(data['selection']['note'])}."
    out += [" · ".join(chips), "", said, ""]
    out += ["## What to do first", ""]
    for f in data["findings"]:
        gain = f" ({f['gain']})" if f["gain"] else ""
        place = f" {code(_place(f))}" if f["file"] else ""
        out.append(f"- **{escaped(f['title'])}**{gain}: {escaped(f['evidence'])}{place}")
    if not data["findings"]:
        out.append("Nothing stands out: no line, wait or step passes a threshold.")
    out += alerts_markdown(data)
    usual = data["selection"]["period"] != "range"
    title = ("A steady step" if usual else "A step") if per_step else "The run"
    figure = ""
    if per_step and not usual:
        figure = f"{q.duration(breakdown['total_ns'] / breakdown['steps'])}, mean of {breakdown['steps']}"
    elif per_step and steps["enough"]:
        figure = f"{q.duration(steps['median_ns'])}, median of {steps['steady']}"
    out += ["", f"## {title}", ""]
    said = "; ".join(x for x in (figure, steps["note"], steps["rule_text"]) if x)
    if said:
        out += [escaped(said), ""]
    out += markdown_table(
        ["part", "mean a step" if per_step else "time", "share"],
        [
            [escaped(p["label"]), q.duration(p["per_step_ns"] if per_step else p["ns"]), q.share(p["share"])]
            for p in breakdown["parts"]
        ]
        + [["sum", q.duration(breakdown["total_ns"] / max(breakdown["steps"], 1)), "100.0 %"]],
    )
    out += [""] + [escaped(n) for n in _step_notes(data)]
    unit = "self/step" if per_step else "self"
    out += ["", f"## Lines that cost most ({escaped(_whole(data))})", ""]
    out += markdown_table(
        ["line", "code", unit, "share", "launches", "module"],
        [
            [code(_place(r)), code(r.get("code", "")), *_costs(r), code(r.get("module", ""))]
            for r in data["lines"]["rows"]
        ],
        right=(2, 3, 4),
    )
    out += ["", "## Operators that cost most", ""]
    out += markdown_table(
        ["operator", unit, "share", "calls", "median"],
        [[code(r.get("name", "")), *_costs(r, "calls"), q.duration(r["median_ns"])] for r in data["ops"]["rows"]],
    )
    modules = [r for r in data["modules"]["rows"] if r["self_ns"] > 0 and r.get("module")]
    if modules:
        out += ["", "## Modules that cost most", ""]
        out += markdown_table(["module", unit, "share", "launches"], [[code(r["module"]), *_costs(r)] for r in modules])
    losses = [f"- {escaped(data['losses_text'][k])}: {q.count(n)}" for k, n in data["counts"]["losses"].items()]
    if losses:
        out += ["", "## The recording", "", *losses]
    if data["not_observed"]:
        out += ["", "## Not observed", ""]
        out += [f"- {escaped(n['what'])}: {escaped(n['reason'] or 'no reason given')}" for n in data["not_observed"]]
    return "\n".join(out).rstrip() + "\n"
