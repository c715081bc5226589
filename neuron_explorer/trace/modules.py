"""Module paths from the chain of modules that were seen calling each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

MAX_NUMBERED: Final = 16
"""More root modules of one class than this are temporaries (a loss made in every step): one name."""


def module_paths(modules: Sequence[tuple[int, str, str, int]]) -> list[str]:
    """A display path per module id.

    ``modules[i]`` is (id of the calling module, path inside it, class, instance number);
    entry 0 is unused. A root shows its class name, what lies below it the path inside the
    root. When two roots would give the same path, theirs are prefixed with the class
    (``GPT:layers.0``, ``GPT#2:layers.0``).
    """
    below: dict[int, int] = {}  # instance → its first entry that has a path
    for number, (parent, path, _, instance) in enumerate(modules):
        if number and parent and path:
            below.setdefault(instance, number)
    placed: dict[int, tuple[int, str]] = {0: (0, "")}  # id → (root's id, path inside the root)
    for number in range(1, len(modules)):
        _place(number, modules, below, placed)
    roots = {root for number, (root, _) in placed.items() if number}
    names = _root_names(roots, modules)
    owners: dict[str, set[str]] = defaultdict(set)
    for number, (root, path) in placed.items():
        if number:
            owners[path or modules[root][2]].add(names[root])
    ambiguous = {name for group in owners.values() if len(group) > 1 for name in group}
    result = [""]
    for number in range(1, len(modules)):
        root, path = placed[number]
        name = names[root]
        if not path:
            result.append(name if name in ambiguous else modules[root][2])
        else:
            result.append(f"{name}:{path}" if name in ambiguous else path)
    return result


def _place(
    number: int,
    modules: Sequence[tuple[int, str, str, int]],
    below: dict[int, int],
    placed: dict[int, tuple[int, str]],
) -> None:
    chain: list[int] = []
    at = number
    while at not in placed:
        if at in chain:  # two modules that contain each other: the outer one seen first is a root
            placed[at] = (at, "")
            break
        chain.append(at)
        parent, path, _, instance = modules[at]
        if parent and path:
            at = parent
        elif below.get(instance, at) != at:
            at = below[instance]  # called on its own here, but known by a path elsewhere
        else:
            placed[at] = (at, path)
            break
    for at in reversed(chain):
        if at in placed:
            continue
        parent, path, _, instance = modules[at]
        if parent and path:
            root, above = placed[parent]
            placed[at] = (root, f"{above}.{path}" if above else path)
        else:
            placed[at] = placed[below[instance]]


def _root_names(roots: set[int], modules: Sequence[tuple[int, str, str, int]]) -> dict[int, str]:
    positions: dict[str, dict[int, int]] = defaultdict(dict)
    for root in sorted(roots):
        known = positions[modules[root][2]]
        known.setdefault(modules[root][3], len(known))
    names = {}
    for root in roots:
        _, _, kind, instance = modules[root]
        position = positions[kind][instance] if len(positions[kind]) <= MAX_NUMBERED else 0
        names[root] = kind if position == 0 else f"{kind}#{position + 1}"
    return names
