"""Every name of torch.distributed that is not public and that a recorder touches, probed in one place."""

from __future__ import annotations

import sys
from typing import Any

__all__ = [
    "ending_methods", "future_class", "group_description", "group_maps", "group_name", "group_of_argument", "loaded",
    "mesh_dimensions", "process_group_class", "resolve_group", "sequence_number", "submitting_methods", "work_class",
]  # fmt: skip

_SUBMITS = (
    "allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced", "gather", "scatter",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base", "all_to_all_single", "barrier", "send", "recv",
    "recv_anysource", "_end_coalescing",
)  # fmt: skip


def loaded() -> Any:
    """``torch.distributed`` where the program uses it and this torch has it; None otherwise."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not getattr(distributed, "is_available", bool)():
        return None
    return distributed if sys.modules.get("torch.distributed.distributed_c10d") is not None else None


def process_group_class() -> Any:
    """The class of process groups, or None."""
    return getattr(loaded(), "ProcessGroup", None)


def work_class() -> Any:
    """The class of handles of collectives, or None."""
    return getattr(loaded(), "Work", None)


def future_class() -> Any:
    """The class below ``torch.futures.Future``, or None."""
    return getattr(getattr(sys.modules.get("torch"), "_C", None), "Future", None)


def submitting_methods() -> tuple[str, ...]:
    """Names of the methods of a process group that begin a collective."""
    owner = process_group_class()
    return tuple(name for name in _SUBMITS if owner is not None and name in vars(owner))


def ending_methods() -> tuple[str, ...]:
    """Names of the methods of a process group that torch calls before it forgets the group."""
    owner = process_group_class()
    return tuple(name for name in ("shutdown", "abort") if owner is not None and name in vars(owner))


def group_maps() -> list[tuple[Any, dict[int, int]]]:
    """(group, rank → rank in the group) of the groups of this process that are alive."""
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    try:
        return [(group, dict(ranks)) for group, ranks in list(world.pg_group_ranks.items())]  # type: ignore[union-attr]
    except AttributeError:
        return []


def group_name(group: Any) -> str:
    """The name by which torch resolves a group; "" where it has none."""
    try:
        return str(group.group_name)
    except Exception:
        return ""


def group_description(group: Any) -> str:
    """What its maker says of a group; "" where that is nothing."""
    try:
        description = str(group.group_desc)
    except Exception:
        return ""
    return "" if description == "undefined" else description


def group_of_argument(value: Any) -> Any:
    """The process group inside an operator's argument, or None."""
    owner = process_group_class()
    if owner is None or type(value).__name__ != "ScriptObject":
        return None
    try:
        return owner.unbox(value) if "ProcessGroup" in str(value._type()) else None
    except Exception:
        return None


def resolve_group(name: str) -> Any:
    """The process group of that name, or None."""
    resolve = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_resolve_process_group", None)
    try:
        return resolve(name) if resolve is not None else None
    except Exception:
        return None


def sequence_number(group: Any) -> int:
    """How many collectives the group's backend has begun; -1 when it does not tell."""
    try:
        return int(group._get_sequence_number_for_group())
    except Exception:
        return -1


def mesh_dimensions() -> dict[str, str]:
    """Group name → the dimension of the live device meshes that it serves."""
    module = sys.modules.get("torch.distributed.device_mesh")
    mesh_class: Any = getattr(module, "DeviceMesh", None)
    if not isinstance(mesh_class, type):
        return {}
    import gc

    found: dict[str, str] = {}
    meshes: list[Any] = [o for o in gc.get_objects() if type(o) is mesh_class]
    for mesh in meshes:
        try:
            names = mesh.mesh_dim_names or ()
            for dimension in names if len(names) == mesh.ndim else ():
                found.setdefault(str(mesh.get_group(dimension).group_name), str(dimension))
        except Exception:  # a mesh that is half made, or whose groups are gone
            continue
    return found
