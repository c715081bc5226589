"""A run's directory is a table partitioned by rank, for whatever reads such directories."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from synthetic import event, metadata, rows_of, write

from neuron_explorer.trace.output import output_path
from neuron_explorer.trace.schema import COLUMNS


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    for rank in range(3):
        path = output_path(f"{root}/", rank, 3)
        path.parent.mkdir()
        rows = rows_of([event("aten::add", 10 * n, 5) for n in range(rank + 1)])
        write(path, [{**row, "rank": rank} for row in rows], metadata(rank=rank, world_size=3))
    return root


def test_pandas(directory):
    frame = pd.read_parquet(directory)
    assert frame.groupby("rank").size().to_dict() == {0: 1, 1: 2, 2: 3}
    assert (frame["part_rank"].astype(int) == frame["rank"]).all()
    assert len(pd.read_parquet(directory, filters=[("part_rank", "=", 2)])) == 3


def test_pyarrow(directory):
    table = ds.dataset(directory, partitioning="hive").to_table(filter=ds.field("part_rank") == 1)
    assert table.num_rows == 2 and set(table["rank"].to_pylist()) == {1}
    assert pq.read_table(directory, columns=["name", "part_rank"]).num_rows == 6


def test_duckdb(directory):
    options = "hive_partitioning = true, hive_types = {'part_rank': INT}"  # else DuckDB takes 0002 for a text
    query = f"SELECT part_rank, rank, count(*) FROM read_parquet('{directory}/*/*.parquet', {options})"
    assert duckdb.sql(f"{query} GROUP BY ALL ORDER BY 1").fetchall() == [(0, 0, 1), (1, 1, 2), (2, 2, 3)]
    assert duckdb.sql(f"{query} WHERE part_rank = 2 GROUP BY ALL").fetchall() == [(2, 2, 3)]


def test_no_column_has_the_name_of_the_partition(directory):
    assert "part_rank" not in {column.name for column in COLUMNS}
    # The types of all ranks agree, also where a rank has nothing to say in a column.
    assert len({pq.read_schema(path).to_string(show_field_metadata=False, show_schema_metadata=False)
                for path in directory.glob("*/*.parquet")}) == 1  # fmt: skip


def test_the_tables_of_the_documentation_have_every_column():
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    athena = {"text": "string", "int64": "bigint", "int32": "int", "int16": "smallint", "bool": "boolean"}
    trino = athena | {"text": "varchar", "int32": "integer"}
    assert re.findall(r"^    `(\w+)` (\w+),?$", text, re.M) == [(c.name, athena[c.type]) for c in COLUMNS]
    assert re.findall(r'^    "(\w+)" (\w+),$', text, re.M) == [(c.name, trino[c.type]) for c in COLUMNS]
