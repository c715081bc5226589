"""docs/tables.md, from the questions."""

from __future__ import annotations

from neuron_explorer.analysis.answer import UNITS, TableKind
from neuron_explorer.analysis.questions import questions


def tables_document() -> str:
    """The page on every report and its tables, in Markdown."""
    lines = [
        "# Reports and their tables",
        "",
        "<!-- Generated: python -m neuron_explorer.analysis.tables_doc > docs/tables.md -->",
        "",
        "`neuron-explorer report NAME trace.parquet` answers one question; `neuron_explorer.load(path)` and",
        "`neuron_explorer.analysis.questions.ask(trace, NAME)` give the same from Python. Every report says what the",
        "trace does not hold and how to have it recorded; events with impossible times are counted and not used.",
        "",
        "| report | question |",
        "|---|---|",
        *(f"| [`{question.name}`](#{question.name}) | {question.question} |" for question in questions().values()),
        "",
        "Units of columns:",
        "",
        *(f"- `{unit}`: {meaning}" for unit, meaning in UNITS.items()),
    ]
    for question in questions().values():
        lines += ["", f"## {question.name}", "", question.question, "", question.method]
        if question.target:
            needed = "needed" if question.needs_target else "optional"
            lines += ["", f"`--target` ({needed}): {question.target}"]
        for table in question.tables:
            lines += ["", *_table(table)]
    return "\n".join(lines) + "\n"


def _table(table: TableKind) -> list[str]:
    rows = [f"| `{c.name}` | {c.unit} | {c.meaning} |" for c in table.columns]
    adds_up = ["", f"Parts that add up: {table.adds_up}."] if table.adds_up else []
    return [f"### Table `{table.name}`: {table.title}", "", "| column | unit | meaning |", "|---|---|---|", *rows,
            *adds_up]  # fmt: skip


if __name__ == "__main__":
    print(tables_document(), end="")
