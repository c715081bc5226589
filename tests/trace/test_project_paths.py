"""Files beside the working directory have names that do not tell where the checkout lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuron_explorer.trace.environment import project_root
from neuron_explorer.trace.paths import PathRules


@pytest.mark.parametrize("checkout", ["/data/one", "/home/someone/two words"])
def test_a_file_of_the_checkout_is_named_from_the_working_directory(checkout: str) -> None:
    rules = PathRules({"cwd": f"{checkout}/jobs", "project": checkout, "user_code": {"exclude": []}})
    assert rules.info(f"{checkout}/jobs/train.py").shown == "train.py"
    assert rules.info(f"{checkout}/src/model.py").shown == "../src/model.py"
    assert rules.info("/elsewhere/model.py").shown == "/elsewhere/model.py"


@pytest.mark.parametrize("project", ["", "relative", 7, None, "/another"])
def test_without_a_checkout_around_it_names_are_as_before(project: object) -> None:
    rules = PathRules({"cwd": "/data/one/jobs", "project": project, "user_code": {"exclude": []}})
    assert rules.info("/data/one/src/model.py").shown == "/data/one/src/model.py"


def test_the_checkout_is_the_nearest_folder_with_git(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")  # as in a worktree
    assert project_root(str(inner)) == project_root(str(tmp_path / "a")) == str(tmp_path / "a")
