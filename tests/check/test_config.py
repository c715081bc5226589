"""The configuration: what it may say, and what is said about the rest."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from neuron_explorer.check.config import Allow, Config, ConfigError, config_of, load_config
from neuron_explorer.check.result import holds


def test_budgets_allowances_and_sizes_are_read():
    config = config_of(
        {"max_recompiles": 0, "max_peak_memory": "12 GiB", "min_attributed_share": 0.95, "warn": ["work"],
         "improvement": "fail",
         "allow": [{"rule": "recompiles", "place": "train.py:loss_of", "reason": "two sizes", "until": "2027-01-31"}]},
        "x",
    )  # fmt: skip
    assert config.budgets == {"max_recompiles": 0, "max_peak_memory": 12 * 2**30, "min_attributed_share": 0.95}
    (allow,) = config.allow
    assert not allow.expired(date(2027, 1, 31)) and allow.expired(date(2027, 2, 1))


@pytest.mark.parametrize(("table", "said"), [
    ({"max_recompile": 0}, "there is no setting 'max_recompile'; did you mean max_recompiles?"),
    ({"max_recompiles": -1}, "max_recompiles must be a number, not -1"),
    ({"max_recompiles": True}, "must be a number"),
    ({"max_peak_memory": "lots"}, '"12 GiB" or a number of bytes'),
    ({"min_attributed_share": 95}, "a share between 0 and 1"),
    ({"improvement": "maybe"}, "improvement must be one of ask, fail, ignore"),
    ({"warn": ["oprators"]}, "did you mean operators?"),
    ({"warn": "work"}, "warn is a list of groups"),
    ({"allow": {}}, "allow must be a list of tables"),
    ({"allow": [1]}, "allow number 1 is no table"),
    ({"allow": [{"reason": "x"}]}, "name a rule, a place or an op"),
    ({"allow": [{"op": "aten::mm"}]}, "a reason is needed"),
    ({"allow": [{"op": "aten::mm", "reason": "x", "untl": 1}]}, "did you mean until?"),
    ({"allow": [{"op": "aten::mm", "reason": "x", "until": "soon"}]}, "until must be a day"),
    ({"allow": [{"rule": "recompile", "reason": "x"}]}, "did you mean recompiles?"),
    ({"peak_memory_tolerance": "2 %"}, "must be a share like 0.02"),
])  # fmt: skip
def test_what_makes_no_sense_is_named(table, said):
    with pytest.raises(ConfigError) as error:
        config_of(table, "pyproject.toml")
    assert said in str(error.value) and error.value.exit_code == 4


def test_the_nearest_pyproject_is_found_and_one_without_the_table_says_nothing(tmp_path: Path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load_config(None, inner).budgets == {}
    (tmp_path / "pyproject.toml").write_text("[tool.neuron-explorer]\nmax_recompiles = 2\n")
    assert load_config(None, inner).budgets == {"max_recompiles": 2}
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_config(None, inner) == Config()
    own = tmp_path / "gate.toml"
    own.write_text("max_launches_per_step = 100\n")
    assert load_config(own).budgets == {"max_launches_per_step": 100}


@pytest.mark.parametrize("text", ["max_recompiles = \n", "\xff", "[[["])
def test_broken_files_are_said(tmp_path, text):
    path = tmp_path / "c.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="no valid TOML"):
        load_config(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "absent.toml")


@pytest.mark.parametrize(("allow", "there"), [
    ({"place": "train.py"}, True), ({"place": "train.py:main"}, True), ({"place": "rain.py"}, False),
    ({"place": "train.py:other"}, False), ({"rule": "copies", "place": "train.py"}, False), ({"op": "size"}, True),
    ({"place": "src/train.py"}, False),
])  # fmt: skip
def test_an_allowance_is_about_what_it_names_only(allow, there):
    key = ("train.py", "main", "x = y", "0", "size", "x")
    assert holds(Allow(reason="r", **allow), "recompiles", key) is there
