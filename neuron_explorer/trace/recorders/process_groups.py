"""Which process groups a program made: their ranks, backends, and the dimension of the mesh they serve."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import time
from typing import Any, Final

from neuron_explorer.trace import environment
from neuron_explorer.trace.recorders import distributed_private, torch_private

__all__ = ["ProcessGroups", "run_id"]

ENTRY: Final = "distributed"
_SELDOM_S: Final = 1.0
_MESH_DESCRIPTION: Final = "mesh_"


class ProcessGroups:
    """Remembers every group, also those destroyed before the recording ends; holds none alive."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._count = 0
        self._looked = -_SELDOM_S
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def start(self) -> None:
        """Collect what is there, and again before torch forgets a group."""
        self.find()

    def find(self) -> bool:
        """Whether torch.distributed came into use, or its number of groups changed, since the last look."""
        if distributed_private.loaded() is None:
            return False
        if not self._replaced:
            owner = distributed_private.process_group_class()
            for name in distributed_private.ending_methods():
                original = vars(owner)[name]
                observed = self._observed(original, name)
                setattr(owner, name, observed)
                self._replaced.append((owner, name, original, observed))
        groups = distributed_private.group_maps()
        if len(groups) == self._count:
            return False
        self._count = len(groups)
        self.collect()
        return True

    def stop(self) -> None:
        """Collect what is left, and put the originals back."""
        self._looked = -_SELDOM_S
        self.collect()
        for owner, name, original, observed in reversed(self._replaced):
            if vars(owner).get(name) is observed:
                setattr(owner, name, original)
        self._replaced.clear()

    @property
    def known(self) -> bool:
        """Whether there was any group."""
        return bool(self._known)

    def collect(self) -> None:
        """Note the groups that are alive now."""
        distributed = distributed_private.loaded()
        groups = distributed_private.group_maps() if distributed is not None else []
        dimensions = self._dimensions() if groups else {}
        for group, ranks in groups:
            name = distributed_private.group_name(group)
            if not name:
                continue
            known = self._known.setdefault(name, {"mesh_dimension": None})
            description = distributed_private.group_description(group)
            known |= {
                "name": name,
                "description": description,
                "backend": _backend(distributed, group),
                "ranks": [rank for rank, _ in sorted(ranks.items(), key=lambda item: item[1])],
            }
            known["mesh_dimension"] = dimensions.get(name) or known["mesh_dimension"] or _of_description(description)

    def _dimensions(self) -> dict[str, str]:
        """Looking for meshes takes milliseconds, and a program may end hundreds of groups in a row."""
        now = time.monotonic()
        if now - self._looked < _SELDOM_S:
            return {}
        self._looked = now
        return distributed_private.mesh_dimensions()

    def document(self) -> dict[str, Any]:
        """The metadata's entry `distributed`; {} for a process that is alone."""
        rank, world_size = environment.rank_and_world_size()
        if not self._known and world_size <= 1:
            return {}
        return {
            "host": socket.gethostname(),
            "local_rank": _number("LOCAL_RANK", rank),
            "run_id": run_id(),
            "attempt": environment.restart_count(),
            "process_groups": list(self._known.values()),
        }

    def _observed(self, original: Any, name: str) -> Any:
        def ends(self_: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):  # the program's group must end whatever we find
                self.collect()
            return original(self_, *args, **kwargs)

        end: Any = functools.wraps(original)(ends)
        # C++ asks the running frame by name whether Python's part of a virtual method is under way.
        end.__code__ = end.__code__.replace(co_name=name)
        torch_private.hide_from_dynamo(end)
        return end


def run_id() -> str:
    """A text that the ranks of one launch share and other launches do not; "" where nothing says it."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
    found = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16] if found else ""


def _of_description(description: str) -> str | None:
    """A mesh describes the groups that it makes by its dimension."""
    dimension = description[len(_MESH_DESCRIPTION) :] if description.startswith(_MESH_DESCRIPTION) else ""
    return dimension or None


def _backend(distributed: Any, group: Any) -> str:
    try:
        return str(distributed.get_backend(group))
    except Exception:
        return ""


def _number(variable: str, default: int) -> int:
    try:
        return int(os.environ.get(variable, default))
    except ValueError:
        return default
