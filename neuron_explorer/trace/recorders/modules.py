"""The path of a module inside the module that calls it."""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["namer"]

# Attributes under which a wrapper keeps the module it wraps: not part of the model's own names.
_WRAPPER_ATTRIBUTES = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
# `module` is also an ordinary name, so it is dropped only below these classes.
_WRAPPER_CLASSES = frozenset(
    {
        "AveragedModel",
        "DataParallel",
        "DeepSpeedEngine",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
    }
)


# Classes of graphs that a compiler makes of functions; of a module, they have the module's class name.
_GRAPH_CLASSES = frozenset({"GraphModule", "<lambda>", "inner_fn", "joint_helper"})


def namer(parent: Any, module: Any) -> tuple[str, str] | None:
    """(path, class name): where ``module`` lies below ``parent``, wrappers left out; "" when nowhere.

    None for a graph that a compiler made: what it runs belongs to the module that encloses it.

    The shortest path wins, so that a module that is shared has the same name at each call
    from the same place. ``parent`` None means that no module encloses the call. Containers
    that are never called themselves (ModuleList) are looked through.
    """
    name = type(module).__name__
    if parent is None or parent is module:
        return None if _is_graph(module) and name in _GRAPH_CLASSES else ("", name)
    seen = {id(parent)}
    queue: deque[tuple[Any, tuple[str, ...]]] = deque([(parent, ())])
    while queue:
        owner, path = queue.popleft()
        for attribute, child in _children(owner):
            if child is None:
                continue
            child_path = path if _is_wrapper(owner, attribute) else (*path, attribute)
            if child is module:
                return ".".join(child_path), name
            if id(child) not in seen:
                seen.add(id(child))
                queue.append((child, child_path))
    return None if _is_graph(module) else ("", name)


def _is_graph(module: Any) -> bool:
    return any(c.__name__ == "GraphModule" and c.__module__ == "torch.fx.graph_module" for c in type(module).__mro__)


def _children(module: Any) -> list[tuple[str, Any]]:
    # Not through getattr: a module's own __getattr__ is the user's code.
    try:
        return list(object.__getattribute__(module, "__dict__").get("_modules", {}).items())
    except (AttributeError, RuntimeError):
        return []


def _is_wrapper(owner: Any, attribute: str) -> bool:
    if attribute in _WRAPPER_ATTRIBUTES:
        return True
    return attribute == "module" and any(c.__name__ in _WRAPPER_CLASSES for c in type(owner).__mro__)
