"""Every report: its columns are documented, its answer keeps to them, and each format can be read back."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from neuron_explorer.analysis.answer import Ask
from neuron_explorer.analysis.questions import MODULES, NAMES, ask, questions
from neuron_explorer.analysis.render_answer import render
from neuron_explorer.analysis.tables_doc import tables_document
from neuron_explorer.trace.store import load

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "sample_traces").glob("*.parquet"))


def test_the_documentation_of_the_tables_is_that_of_the_code():
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == tables_document(), (
        "run python -m neuron_explorer.analysis.tables_doc > docs/tables.md"
    )


def test_names_of_reports_tables_and_columns_are_ones_that_a_shell_and_a_query_take():
    for name, question in questions().items():
        assert re.fullmatch(r"[a-z][a-z0-9-]*", name)
        for table in question.tables:
            names = [column.name for column in table.columns]
            assert len(set(names)) == len(names)
            assert all(re.fullmatch(r"[a-z][a-z0-9_]*", n) for n in [table.name, *names])
            assert all(column.meaning.endswith(".") for column in table.columns)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda p: p.stem)
def test_each_answer_keeps_to_its_tables_and_is_the_same_in_each_format(sample):
    with load(sample) as trace:
        for name, question in questions().items():
            if question.needs_target:
                continue
            answer = ask(trace, name, Ask(top=7))
            assert answer.name == name and answer.headline
            assert {t.kind for t in answer.tables} <= set(question.tables)
            document = json.loads(render(answer, "json"))
            parts = render(answer, "csv").split("\n\n")
            assert len(parts) == max(1, len(answer.tables))
            for table, part in zip(answer.tables, parts, strict=False):
                assert len(table.rows) <= 7 and table.total_rows >= len(table.rows)
                assert document["tables"][table.kind.name]["rows"] == table.records()
                read = list(csv.reader(io.StringIO(part)))
                assert read[0] == [column.name for column in table.kind.columns]
                assert len(read) == len(table.rows) + 1
            assert answer.headline.split()[0] in render(answer, "text")
            assert render(answer, "markdown").startswith("## ")


def test_each_question_is_in_the_module_that_is_imported_for_it():
    for module, names in MODULES.items():
        defined = import_module(f"neuron_explorer.analysis.{module}").QUESTIONS
        assert tuple(question.name for question in defined) == names
    assert len(set(NAMES)) == len(NAMES)
    assert tuple(questions()) == NAMES
