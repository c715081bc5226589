"""The process groups that a trace names: in its metadata, and in its collectives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.ranks.facts import Group

MOST_GROUPS: Final = 4096
MOST_RANKS: Final = 1 << 17
_NUMBER: Final = re.compile(r"\d{1,9}")


class Groups:
    """Groups by name, numbered as they are met."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.known: dict[str, int] = {}
        self.groups: list[Group] = []
        about = metadata.get("distributed")
        about = about if isinstance(about, dict) else {}
        self.backend = _text(about.get("backend"))
        listed = about.get("process_groups")
        listed = listed if isinstance(listed, list) else about.get("pg_config")  # as torch.profiler calls it
        for entry in listed[:MOST_GROUPS] if isinstance(listed, list) else ():
            if isinstance(entry, dict):
                self._add(_declared(entry))

    def number(self, detail: Mapping[str, Any]) -> int:
        """The group that a collective's detail names, a new one where it was not declared; -1 beyond the bound."""
        name = _name(detail.get("group"))
        at = self.known.get(name)
        if at is None:
            if len(self.groups) >= MOST_GROUPS:
                return -1
            ranks = _ranks(detail.get("ranks"))
            size = detail.get("group_size")
            at = self._add(Group(
                name, _text(detail.get("group_description")), self.backend, ranks,
                size if type(size) is int and 0 < size < 1 << 31 else len(ranks) or -1,
            ))  # fmt: skip
        return at

    def _add(self, group: Group) -> int:
        at = self.known.setdefault(group.name, len(self.groups))
        if at == len(self.groups):
            self.groups.append(group)
        return at


def _declared(entry: Mapping[str, Any]) -> Group:
    ranks = _ranks(entry.get("ranks"))
    size = entry.get("pg_size", entry.get("group_size"))
    backend = _text(entry.get("backend") or entry.get("backend_config"))
    return Group(
        _name(entry.get("name", entry.get("pg_name"))),
        _text(entry.get("description") or entry.get("pg_desc")),
        backend,
        ranks,
        len(ranks) or (size if type(size) is int and 0 < size < 1 << 31 else -1),
        _text(entry.get("mesh_dimension")),
    )


def _name(value: object) -> str:
    return _text(str(value) if type(value) is int else value)


def _text(value: object) -> str:
    return plain(value, 200) if isinstance(value, str) else ""


def _ranks(value: object) -> tuple[int, ...]:
    if isinstance(value, str):  # as Kineto writes it, maybe shortened with "..."
        if "..." in value or len(value) > 10 * MOST_RANKS:
            return ()
        value = [int(digits) for digits in _NUMBER.findall(value)]
    if not isinstance(value, list) or len(value) > MOST_RANKS:
        return ()
    if not all(type(rank) is int and 0 <= rank < 1 << 31 for rank in value):
        return ()
    return tuple(value)
