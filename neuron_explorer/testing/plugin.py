"""The pytest plugin. It is loaded into every run of pytest beside this package, so it imports nothing heavy.

::

    @pytest.mark.neuron_budget(max_recompiles=0)
    def test_training():
        train(steps=5)

    def test_step(neuron_profile):
        with neuron_profile() as run:
            train(steps=5)
        run.assert_no_graph_breaks()
        run.assert_baseline()
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from neuron_explorer.testing.profiled import Profiled, recording

UPDATE = "--neuron-explorer-update"
FOLDER = "neuron_explorer_baselines"
MARK = "neuron_budget"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that writes baselines."""
    group = parser.getgroup("neuron-explorer")
    group.addoption(
        UPDATE, action="store_true", default=False, dest="neuron_explorer_update",
        help="write the baselines of run.assert_baseline() instead of comparing with them",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers", f"{MARK}(max_recompiles=0, ...): record the test and fail it where a budget is exceeded"
    )


def _profiled(item: pytest.Item, folder: Path, number: int) -> Profiled:
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.name)[:100].strip("-") or "test"
    module = item.path.stem
    return Profiled(
        folder / f"{name}-{number}.parquet", item.path.parent / FOLDER / f"{module}-{name}",
        bool(item.config.getoption("neuron_explorer_update", False)),
    )  # fmt: skip


@pytest.fixture
def neuron_profile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[Profiled]]:
    """Records a part of the test: ``with neuron_profile() as run: ...``, with the options of ``profile()``."""
    folder = tmp_path_factory.mktemp("neuron_profile")
    made = 0

    @contextmanager
    def start(**options: Any) -> Iterator[Profiled]:
        nonlocal made
        made += 1
        with recording(_profiled(request.node, folder, made), **options) as run:
            yield run

    return start


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    """Record a marked test and look at its budgets once it has passed."""
    mark = pyfuncitem.get_closest_marker(MARK)
    if mark is None:
        yield
        return
    if mark.args or not mark.kwargs:
        raise pytest.UsageError(f"{pyfuncitem.nodeid}: {MARK} takes budgets by name, such as max_recompiles=0")
    factory: pytest.TempPathFactory = pyfuncitem.config._tmp_path_factory  # type: ignore[attr-defined]
    run = _profiled(pyfuncitem, factory.mktemp("neuron_budget"), 0)
    with recording(run):
        outcome = yield
    if outcome.excinfo is None:
        try:
            run.assert_within(**mark.kwargs)
        except BaseException as error:
            outcome.force_exception(error)
