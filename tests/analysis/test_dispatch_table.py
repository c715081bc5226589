"""The table of composite operators against the torch that it was made from."""

from __future__ import annotations

import pytest

from neuron_explorer.neuron import dispatch


def test_the_table_is_what_its_script_writes():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchgen")
    written = (dispatch._HERE / "dispatch.txt").read_text(encoding="utf-8")
    version = torch.__version__.split("+")[0]
    if f"torch {version}," not in written:
        pytest.skip(f"the table is not from torch {version}")
    from neuron_explorer.neuron.make_dispatch_table import entries

    lines = [line for line in written.splitlines() if not line.startswith("#")]
    assert lines == sorted({f"{name} {how}" for name, how in entries()})


def test_the_operators_that_it_hands_to_are_kernels():
    table = dispatch._table()
    assert len(table) > 1500
    for name, how in table.items():
        assert how == "composite" or table.get(how) != "composite" or how.endswith("out"), name


def test_a_list_of_the_users(tmp_path):
    path = tmp_path / "native.txt"
    path.write_text("# mine\naten::foo  # comment\nbar.out\n")
    assert dispatch.native_operators(path) == {"foo", "bar.out"}
    assert dispatch.native_operators(tmp_path / "nowhere.txt") is None
