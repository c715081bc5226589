"""What a block of memory is for: exact where the recorder saw what it holds, else inferred.

Inferred from the phase that allocated it and from how long it lived; the rules are ``RULES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from neuron_explorer.analysis.kept import kept
from neuron_explorer.analysis.memory_blocks import ROLES, Blocks, blocks

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

CATEGORIES: Final = (
    "parameters", "gradients", "optimizer state", "activations", "temporaries", "inputs and other", "before recording",
)  # fmt: skip
PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, TEMPORARIES, OTHER, EARLIER = range(len(CATEGORIES))

RULES: Final = {
    "parameters": "Seen in a module (its buffers too) or in an optimizer. Exact.",
    "gradients": "Seen as a parameter's gradient when an optimizer stepped: exact. Inferred where no optimizer stepped "
    "while it lived: allocated in backward and not released there.",
    "optimizer state": "Seen in an optimizer's state: exact. Inferred: allocated in an optimizer step and alive after "
    "the step.",
    "activations": "Inferred: allocated in forward and alive while a backward runs; without a backward, alive after "
    "its forward. What a checkpoint computes again in backward is one, too.",
    "temporaries": "Inferred: allocated and released within forward, backward or the optimizer.",
    "inputs and other": "Allocated outside these phases (inputs, copies, what the program keeps), or in backward and "
    "kept without being a gradient.",
    "before recording": "Allocated before the recording, and not seen to hold any of these.",
}  # fmt: skip
"""How each category is found."""


def categories(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """For each block of the trace its category, as an index of ``CATEGORIES``, and whether that is exact."""
    return kept(trace, "memory categories", lambda: categorised(blocks(trace)))


def categorised(found: Blocks) -> tuple[np.ndarray, np.ndarray]:
    """As ``categories``, of these blocks."""
    rows, count = found.rows, len(found.rows)
    phases = np.array([*rows.phase.values, "other"])
    phase = phases[rows.phase.codes] if count else np.zeros(0, "U9")
    phase = np.append(phase, "other")
    born, died = phase[found.row], phase[np.minimum(found.died, count)]
    backward = np.isin(phase[:count], ("backward", "recompute"))
    category = np.full(len(found), OTHER)
    category[found.row < 0] = EARLIER

    step = np.append(rows.step, -1)
    stays = (found.died >= count) | (step[np.minimum(found.died, count)] != step[found.row])
    in_optimizer = (found.row >= 0) & (born == "optimizer")
    category[in_optimizer] = np.where(stays[in_optimizer], STATE, TEMPORARIES)

    in_backward = (found.row >= 0) & (born == "backward")
    short = np.isin(died, ("backward", "recompute")) & (found.died < count)
    noted = _between(found.noted, found)  # gradients were looked for while it lived, and it was none
    category[in_backward] = np.where(short, TEMPORARIES, np.where(noted, OTHER, GRADIENTS))[in_backward]
    category[(found.row >= 0) & (born == "recompute")] = ACTIVATIONS

    in_forward = (found.row >= 0) & (born == "forward")
    crosses = _between(np.flatnonzero(backward), found)
    outlives = ((died != "forward") | (found.died >= count)) & (not backward.any())
    category[in_forward] = np.where(crosses | outlives, ACTIVATIONS, TEMPORARIES)[in_forward]

    exact = np.zeros(len(found), bool)
    for bits, which in (
        (ROLES["gradient"], GRADIENTS),
        (ROLES["optimizer state"], STATE),
        (ROLES["parameter"] | ROLES["buffer"], PARAMETERS),
    ):
        held = (found.roles & bits) != 0
        category[held] = which
        exact |= held
    return category, exact


def _between(positions: np.ndarray, found: Blocks) -> np.ndarray:
    """Blocks during whose life one of the ascending ``positions`` lies; their release is the end of it."""
    first = np.searchsorted(positions, found.born, "right")
    return first < np.searchsorted(positions, found.died, "right")
