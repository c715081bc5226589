"""A part of a test that was recorded, and what can be demanded of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neuron_explorer.check.counts import Counts
    from neuron_explorer.trace.session import Profile


class BudgetExceeded(AssertionError):
    """A test that did more than it may; the message is the result of the check."""


class Profiled:
    """One recording of a test. ``path``: the trace, kept in the test's temporary directory.

    What is demanded is looked up when it is asked for, after the recording has ended.
    """

    def __init__(self, path: Path, baseline: Path, update: bool) -> None:
        self.path = path
        self._baseline = baseline
        self._update = update
        self.profile: Profile | None = None

    @cached_property
    def counts(self) -> Counts:
        """The exact counts of the recording."""
        from neuron_explorer.check.counts import counts_of
        from neuron_explorer.trace.store import load

        if not self.path.exists():
            raise RuntimeError("the recording has not ended: look at it after the `with` block")
        with load(self.path) as trace:
            return counts_of(trace)

    def step(self) -> None:
        """Mark the end of a step, as ``prof.step()`` does."""
        if self.profile is not None:
            self.profile.step()

    def assert_within(self, **budgets: Any) -> None:
        """Demand budgets: ``max_recompiles=0``, ``max_launches_per_step=500`` and the others of docs/check.md.

        Raises ``BudgetExceeded`` where one is exceeded or could not be observed, ``ConfigError`` for an unknown name.
        """
        from neuron_explorer.check.config import config_of
        from neuron_explorer.check.render import render_text
        from neuron_explorer.check.result import OK, check

        config = config_of(budgets, "the test's budgets")
        result = check(self.counts, None, config, attributed=self._attributed())
        if result.exit_code != OK:
            raise BudgetExceeded(render_text(result))

    def assert_no_recompiles(self) -> None:
        """Demand that nothing was compiled again."""
        self.assert_within(max_recompiles=0)

    def assert_no_graph_breaks(self) -> None:
        """Demand that Dynamo never left a graph."""
        self.assert_within(max_graph_breaks=0)

    def assert_no_fallbacks(self) -> None:
        """Demand that no operator of a step ran on the CPU for want of a kernel."""
        self.assert_within(max_fallback_ops=0)

    def assert_baseline(self, name: str = "") -> None:
        """Demand what the baseline beside the test says; ``name`` tells several of one test apart.

        With ``--neuron-explorer-update`` the baseline is written instead.
        """
        from neuron_explorer.check.baseline import baseline_of, baseline_text
        from neuron_explorer.check.config import Config
        from neuron_explorer.check.files import read_baseline, write_text
        from neuron_explorer.check.render import render_text
        from neuron_explorer.check.result import OK, check

        file = self._baseline.with_name(self._baseline.name + (f"-{name}" if name else "") + ".baseline")
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, baseline_text(baseline_of([self.counts])))
            return
        if not file.exists():
            raise BudgetExceeded(f"there is no baseline {file}; write it with `pytest --neuron-explorer-update`.")
        result = check(self.counts, read_baseline(file), Config(), accept="pytest --neuron-explorer-update")
        if result.exit_code != OK:
            raise BudgetExceeded(render_text(result))

    def _attributed(self) -> float | None:
        from neuron_explorer.check.attributed import attributed_share

        return attributed_share([self.path])

    def __repr__(self) -> str:
        return f"Profiled({json.dumps(str(self.path))})"


@contextmanager
def recording(profiled: Profiled, **options: Any) -> Iterator[Profiled]:
    """Record the block into ``profiled``; ``options`` as of ``neuron_explorer.profile``."""
    import neuron_explorer

    with neuron_explorer.profile(profiled.path, overwrite=True, **options) as profile:
        profiled.profile = profile
        yield profiled
    profiled.profile = None
