"""Names as they stand in keys: without what another process, machine or edit elsewhere would name differently.

Line numbers in the names that Dynamo makes, numbers of compilations, addresses, digests, temporary
directories and ``<locals>`` go; what tells two things of one program apart stays.
"""

from __future__ import annotations

import re
from typing import Final

from neuron_explorer.analysis.compile_events import resumed, user_function
from neuron_explorer.analysis.function_spans import MODULE

MOST_FIELD: Final = 600

_CELL: Final = re.compile(r"(?:.*/)?ipykernel_\d+/|<ipython-input-\d+-?")
_TEMPORARY: Final = re.compile(r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/(?:[^\s/'\"`,:;()\[\]]+/)*")
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}")
_DIGEST: Final = re.compile(r"(?<![A-Za-z0-9])(?:(?=[a-f]*\d)[0-9a-f]{16,}|f[a-z2-7]{51})(?![A-Za-z0-9])")
_REGION: Final = re.compile(r"^(Torch-Compiled Region)(?:: ?!?\d+/\d+(?:_\d+)?)?$")
_GRAPH: Final = re.compile(
    r"(?<!\w)(__compiled_fn|__builtins_dict__|<eval_with_key>|___stack|__resume_at)[._]*\d+(?:_\d+)*"
)
_RESUMED: Final = re.compile(r"(?:torch_dynamo_resume_in_)+(\w+?)(?:_at_\d+)+\b")
_INLINED: Final = re.compile(r"\.?<(?:list|set|dict)comp>|\.?<genexpr>")
"""From Python 3.12 on, most of these run as part of the function around them."""
_LONG_NUMBER: Final = re.compile(r"\b\d{10,}\b")


def stable_text(text: str) -> str:
    """A reason, a cause or a name inside of a sentence."""
    for pattern, to in (
        (_TEMPORARY, ""), (_UUID, ""), (_ADDRESS, "0x"), (_RESUMED, r"\1"), (_GRAPH, r"\1"), (_DIGEST, ""),
        (_LONG_NUMBER, ""),
    ):  # fmt: skip
        text = pattern.sub(to, text)
    return text.replace("<locals>.", "")[:MOST_FIELD]


def stable_operator(name: str) -> str:
    """The name of an operator, of a compiled graph or of a kernel."""
    region = _REGION.match(name)
    return region[1] if region else stable_text(name).strip()


def stable_function(name: str) -> str:
    """The qualified name of a function as the user wrote it: what goes on after a graph break is still that one, and a
    comprehension is part of the function around it.
    """
    return (_INLINED.sub("", user_function(name).replace("<locals>.", "")) or MODULE)[:MOST_FIELD] if name else ""


def compiled_function(name: str) -> str:
    """The same of a compiled function, where its parts after graph breaks are compiled apart."""
    return stable_function(name) + (" after a graph break" if resumed(name) else "")


def stable_path(path: str) -> str:
    """A file. Cells of a notebook are one place: their numbers change with each run of the notebook."""
    if _CELL.match(path):
        return "notebook"
    return stable_text(path)
