"""The questions that can be asked of a trace, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from neuron_explorer.analysis.answer import Answer, Ask, Question

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

MODULES: Final = (
    "insights",
    "tables_by",
    "call_reports",
    "roofline_report",
    "waste",
    "breakdown_tables",
    "steady_tables",
    "idle_tables",
    "critical_tables",
    "memory_report",
)  # fmt: skip
"""Modules of this package that define ``QUESTIONS``, in the order in which they are listed."""


@lru_cache(maxsize=1)
def questions() -> Mapping[str, Question]:
    """Every question by its name, in the order of the documentation."""
    found: dict[str, Question] = {}
    for module in MODULES:
        for question in import_module(f"{__package__}.{module}").QUESTIONS:
            if question.name in found:
                raise ValueError(f"two questions are called {question.name}")
            found[question.name] = question
    return found


def ask(trace: Trace, name: str, given: Ask | None = None) -> Answer:
    """The answer of one question.

    Raises KeyError for an unknown name, ValueError where the question makes no sense on this trace.
    """
    return questions()[name].answer(trace, given or Ask())
