"""The questions that can be asked of a trace, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.answer import Answer, Ask, Question

if TYPE_CHECKING:
    from neuron_explorer.analysis.ranks.view import RunView
    from neuron_explorer.trace.store import Trace

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "insights": ("insights",),
    "tables_by": ("lines", "ops", "shapes", "modules"),
    "call_reports": ("call-tree", "bottom-up", "sandwich"),
    "roofline_report": ("roofline",),
    "waste": ("waste",),
    "breakdown_tables": ("breakdown",),
    "steady_tables": ("steps",),
    "idle_tables": ("idle",),
    "critical_tables": ("critical-path",),
    "performance_bounds": ("bounds",),
    "memory_report": ("memory", "memory-timeline", "memory-lines"),
    "ranks.report": ("ranks", "collectives", "stragglers"),
}
"""Modules of this package that define ``QUESTIONS``, in the order in which they are listed, and the names of those:
one question is asked without importing all.
"""

_MODULE_OF: Final = {name: module for module, names in MODULES.items() for name in names}
NAMES: Final = tuple(_MODULE_OF)
"""The names of all questions, in the order of the documentation."""


@cache
def question(name: str) -> Question:
    """One question. Raises KeyError for an unknown name."""
    defined = import_module(f"{__package__}.{_MODULE_OF[name]}").QUESTIONS
    return {each.name: each for each in defined}[name]


@lru_cache(maxsize=1)
def questions() -> Mapping[str, Question]:
    """Every question by its name, in the order of the documentation."""
    return {name: question(name) for name in NAMES}


def ask(trace: Trace, name: str, given: Ask | None = None) -> Answer:
    """The answer of one question.

    Raises KeyError for an unknown name, ValueError where the question makes no sense on this trace.
    """
    return question(name).answer(trace, given or Ask())


def ask_run(run: RunView, name: str, given: Ask | None = None) -> Answer:
    """The answer for all ranks of a run.

    Raises KeyError for an unknown name, ValueError for a question that can only be asked of one trace.
    """
    of_run = question(name).of_run
    if of_run is None:
        those = ", ".join(n for n, each in questions().items() if each.of_run is not None)
        raise ValueError(f"the report {name} is about one trace; give one of the run's files. Of runs: {those}")
    return of_run(run, given or Ask())
