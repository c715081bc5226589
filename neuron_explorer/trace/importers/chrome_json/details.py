"""The column ``detail``: what an event's arguments say that no other column holds."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np

from .kinds import CODE, Kinds
from .records import MISSING, Picked

__all__ = ["Details", "collective_facts"]

_ITEM_BYTES: Final = {
    "float": 4, "double": 8, "half": 2, "bfloat16": 2, "long": 8, "long int": 8, "int": 4, "short": 2, "byte": 1,
    "char": 1, "signed char": 1, "unsigned char": 1, "bool": 1, "c10::half": 2, "c10::bfloat16": 2, "float8_e4m3fn": 1,
}  # fmt: skip
_MEMORY, _COPY, _COLLECTIVE = (CODE[k] for k in ("memory", "copy", "collective"))
_DIRECTIONS: Final = {"DtoH": "device_to_host", "HtoD": "host_to_device", "DtoD": "device_to_device",
                      "PtoP": "device_to_device", "HtoH": "host_to_host"}  # fmt: skip


class Details:
    """Documents by what they are made of. ``category`` keeps the word of the source."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._texts = kinds.texts
        self._categories: dict[int, str] = {}

    def numbers(self, records: Picked) -> tuple[np.ndarray, ...]:
        """What the document of each record depends on."""
        kind = records["kind"]
        size = np.where((kind == _MEMORY) | (records["bytes"] != MISSING), records["bytes"], MISSING)
        address, allocated, reserved = (
            np.where(kind == _MEMORY, records[slot], MISSING) for slot in ("first", "second", "forward")
        )
        return (records["rest"], records["category"], kind.astype(np.int64), records["name"], size, address, allocated,
                reserved)  # fmt: skip

    def text(
        self, rest: int, category: int, kind: int, name: int, size: int, address: int, allocated: int, reserved: int
    ) -> str | None:
        """The JSON document."""
        members = []
        given = self._texts.members(rest) if rest else ""
        if kind in (_COPY, _COLLECTIVE):
            facts = self._copy(name) if kind == _COPY else collective_facts(self._arguments(rest))
            members += [f'"{k}":{json.dumps(v)}' for k, v in facts.items() if f'"{k}":' not in given]
        if size != MISSING:
            members.append(f'"bytes":{size}')
        if kind == _MEMORY:
            for key, value in (("address", address), ("allocated", allocated), ("reserved", reserved)):
                if value != MISSING:
                    members.append(f'"{key}":{value}')
        if category:
            said = self._categories.get(category)
            if said is None:
                said = f'"category":{json.dumps(self._texts.content(category), ensure_ascii=False)}'
                self._categories[category] = said
            members.append(said)
        if given:
            members.append(given)
        return "{" + ",".join(members) + "}" if members else None

    def _copy(self, name: int) -> dict[str, Any]:
        text = self._texts.content(name)
        return next(({"direction": said} for word, said in _DIRECTIONS.items() if word in text), {})

    def _arguments(self, rest: int) -> dict[str, Any]:
        value = self._texts.value_of_members(rest) if rest else {}
        return value if isinstance(value, dict) else {}


def collective_facts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Operation, group, its size, dtype and bytes of a collective, from the arguments of ``record_param_comms``."""
    facts: dict[str, Any] = {}
    for key, names in (
        ("operation", ("Collective name", "collective_name")), ("group", ("Process Group Name",)),
        ("group_description", ("Process Group Description",)), ("group_size", ("Group size",)),
        ("ranks", ("Process Group Ranks",)), ("dtype", ("dtype",)),
    ):  # fmt: skip
        value = next((arguments[n] for n in names if arguments.get(n) not in (None, "")), None)
        if value is not None:
            facts[key] = value
    item = _ITEM_BYTES.get(str(facts.get("dtype", "")).lower())
    for key, name in (("bytes_in", "In msg nelems"), ("bytes_out", "Out msg nelems")):
        number = arguments.get(name)
        if item and isinstance(number, int) and 0 <= number < 1 << 58:
            facts[key] = number * item
    return facts


