"""What a trace said before it was exported to JSON: ``export`` writes what the format has no place for beside it.

The export's document has the trace's metadata under ``neuron_explorer``, and its events have ``kind``, ``file``,
``line`` … among their arguments. They win over what is worked out from names, links and call stacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....errors import BadTraceError
from ... import schema
from ...meta import parse
from ...metadata import default_metadata
from ...text import TextTable
from ...write import Coded
from .distinct import distinct
from .kinds import CODE
from .records import MISSING, Picked
from .texts import Texts

__all__ = ["KEY", "Own", "own_metadata"]

KEY: Final = "neuron_explorer"
"""The document's key."""
_TEXTS: Final = {"file": "file", "function": "function", "module": "module", "phase": "phase", "period": "period",
                 "compile_id": "compile_id", "device": "device_name"}  # fmt: skip
"""Column → argument. Null where the argument is not there."""
_BESIDE: Final = {"name": "full_name", "shapes": "shapes", "strides": "strides", "dtypes": "dtypes",
                  "arguments": "arguments"}  # fmt: skip
"""Column → argument that is written only where another place loses something."""
_ATTRIBUTIONS: Final = tuple(schema.ATTRIBUTIONS)
_KEPT: Final = ("versions", "device", "machine", "script", "capabilities", "settings", "overhead",
                "custom_operators", "discloses")  # fmt: skip
_MEMORY: Final = CODE["memory"]
_COLUMNS: Final = (*_TEXTS, *_BESIDE, "detail")
_CLOSED: Final = {"phase": schema.PHASES, "period": schema.PERIODS}


def own_metadata(value: Any) -> dict[str, Any]:
    """The entries of the metadata that a run keeps however it was written; empty when the key holds no metadata."""
    if not isinstance(value, dict):
        return {}
    try:
        document = parse(json.dumps(default_metadata() | value).encode(), "the document")
    except (BadTraceError, ValueError, RecursionError, TypeError):
        return {}
    kept = {key: document[key] for key in _KEPT if key in value}
    steps = document["steps"]
    kept["steps"] = {key: steps[key] for key in ("rule", "rule_text") if isinstance(steps.get(key), str)}
    kept["discloses"] = document["discloses"] | {"source": "none"}
    return kept


class Own:
    """Columns by the number of an event's arguments; each distinct text of arguments is looked at once."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._known = np.full(1024, -1, np.int32)
        self._count = 1
        self._codes: dict[str, list[int]] = {n: [-1] for n in (*_COLUMNS, "kind", "attribution", "line", "address")}
        self._tables = {name: TextTable() for name in _COLUMNS}

    def places(self, rest: np.ndarray) -> np.ndarray:
        """For each event a number for the methods below; 0 where its arguments are not an export's."""
        if not len(rest):
            return np.zeros(0, np.int32)
        highest = int(rest.max())
        if highest >= len(self._known):
            grown = np.full(max(highest + 1, 2 * len(self._known)), -1, np.int32)
            grown[: len(self._known)] = self._known
            self._known = grown
        missing = rest[self._known[rest] < 0]
        for number in missing[distinct(missing)[0]].tolist() if len(missing) else ():
            value = self._texts.value_of_members(number) if number else None
            self._known[number] = self._add(value) if isinstance(value, dict) else 0
        return self._known[rest]

    def _add(self, value: Mapping[str, Any]) -> int:
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in CODE:
            return 0
        how, line, detail = value.get("attribution"), value.get("line"), value.get("detail")
        numbers = {
            "kind": CODE[kind],
            "attribution": _ATTRIBUTIONS.index(how) if isinstance(how, str) and how in _ATTRIBUTIONS else -1,
            "line": line if type(line) is int and 0 < line < 1 << 31 else -1,
            "address": int(isinstance(detail, dict) and "address" in detail),
        }
        for name, codes in self._codes.items():
            codes.append(numbers[name] if name in numbers else self._tables[name].code(_text(name, value)))
        self._count += 1
        return self._count - 1

    def kinds(self, place: np.ndarray, kind: np.ndarray) -> np.ndarray:
        """Kind codes."""
        return np.where(place > 0, self._of("kind", place), kind)

    def attributions(self, place: np.ndarray, how: np.ndarray) -> np.ndarray:
        """Codes of attributions, -1 where there is none."""
        return np.where(place > 0, self._of("attribution", place), how)

    def _blocks(self, place: np.ndarray, kind: np.ndarray, address: np.ndarray, correlation: np.ndarray) -> np.ndarray:
        """Numbers of blocks of memory, which stand for addresses where none was recorded."""
        mine = (place > 0) & (kind == _MEMORY) & (address != MISSING) & (self._of("address", place) == 0)
        return np.where(mine, address, correlation)

    def columns(self, place: np.ndarray, records: Picked, before: Mapping[str, Any]) -> dict[str, Any]:
        """Columns; ``before`` holds what they are without the export's arguments."""
        made: dict[str, Any] = {
            "line": np.where(place > 0, self._of("line", place), before["line"]),
            "correlation": self._blocks(place, before["kind"].codes, records["first"], before["correlation"]),
        }
        for name in _COLUMNS:
            codes = self._of(name, place)
            use = (place > 0) & (codes >= 0) if name in _BESIDE else place > 0
            if use.any():
                made[name] = _merged(before[name], self._tables[name].column(np.where(use, codes, -1)), use)
        return made

    def _of(self, name: str, place: np.ndarray) -> np.ndarray:
        return np.array(self._codes[name], np.int64)[place]


def _text(column: str, row: Mapping[str, Any]) -> str | None:
    value = row.get(_TEXTS.get(column) or _BESIDE.get(column) or column)
    if value is None:
        return None
    if column in _CLOSED:
        return value if value in _CLOSED[column] else None
    if column in ("detail", "shapes", "strides", "dtypes", "arguments") and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"))
    return value if isinstance(value, str) else None


def _merged(before: Coded, own: Coded, use: np.ndarray) -> Coded:
    """``own`` where it is to be used, else ``before``; one table of both, without doubles."""
    table = TextTable()
    first = np.array([*(table.code(v) for v in before.values), -1], np.int32)
    second = np.array([*(table.code(v) for v in own.values), -1], np.int32)
    return table.column(np.where(use, second[own.codes], first[before.codes]))
