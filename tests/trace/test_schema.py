"""The schema and its page say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from neuron_explorer.trace import schema
from neuron_explorer.trace.metadata import default_metadata
from neuron_explorer.trace.schema_doc import schema_document

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_the_generated_one():
    assert (ROOT / "docs" / "schema.md").read_text(encoding="utf-8") == schema_document(), (
        "run: python -m neuron_explorer.trace.schema > docs/schema.md"
    )


def test_the_module_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "neuron_explorer.trace.schema"], cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout.decode("utf-8") == schema_document()


def test_everything_is_on_the_page():
    page = schema_document()
    for name in (*schema.COLUMN_NAMES, *schema.KINDS, *schema.ATTRIBUTIONS, *schema.PHASES, *schema.PERIODS):
        assert f"`{name}`" in page, name
    for name in default_metadata():
        assert name in page, name


def test_names_are_unique_and_used():
    assert len(set(schema.COLUMN_NAMES)) == len(schema.COLUMNS)
    assert set(schema.CORE_COLUMNS) <= set(schema.COLUMN_NAMES)
    assert set(schema.TABLE_KINDS) <= set(schema.KINDS)
    assert {f.name for f in schema.arrow_schema()} == set(schema.COLUMN_NAMES)
