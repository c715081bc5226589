"""What a check is told: budgets, what is allowed, what only warns. From ``pyproject.toml`` or a file of its own.

::

    [tool.neuron-explorer]
    max_recompiles = 0
    max_peak_memory = "12 GiB"

    [[tool.neuron-explorer.allow]]
    rule = "recompiles"
    place = "train.py:loss_of"
    reason = "two batch sizes, decided in review"
    until = 2027-01-31
"""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from neuron_explorer.check.groups import GROUPS
from neuron_explorer.errors import NeuronExplorerError
from neuron_explorer.trace.sniff import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE: Final = "neuron-explorer"
MOST_BYTES: Final = 4 << 20


class ConfigError(NeuronExplorerError):
    """A configuration that makes no sense: what is wrong, where, and what it should be."""

    exit_code = 4


@dataclass(frozen=True)
class BudgetKind:
    """A limit that needs no baseline. ``least``: the value must not be below it. ``unit`` of the value."""

    name: str
    title: str
    unit: str
    group: str = ""
    least: bool = False


BUDGETS: Final = {
    b.name: b
    for b in (
        BudgetKind("max_recompiles", "recompilations of the run", "count", "recompiles"),
        BudgetKind("max_graph_breaks", "graph breaks of the run", "count", "graph_breaks"),
        BudgetKind("max_fallback_ops", "operators on the CPU in a step", "count", "fallbacks"),
        BudgetKind("max_launches_per_step", "launches in a step", "count", "launches"),
        BudgetKind("min_attributed_share", "share of operator time with a line", "share", least=True),
        BudgetKind("max_peak_memory", "peak memory", "B", "peak_memory"),
    )
}
"""Budgets by their key in the configuration."""

IMPROVEMENTS: Final = ("ask", "fail", "ignore")
TIMES: Final = ("warn", "block")
RULES: Final = (*GROUPS, *BUDGETS)


@dataclass(frozen=True)
class Allow:
    """Findings that do not block. ``rule``: a group or budget, "" for any. ``place``: a file, or ``file:function``.
    ``op``: an operator. ``until``: the last day on which it holds.
    """

    reason: str
    rule: str = ""
    place: str = ""
    op: str = ""
    until: date | None = None

    def expired(self, today: date) -> bool:
        """Whether it holds no longer."""
        return self.until is not None and today > self.until


@dataclass(frozen=True)
class Config:
    """``budgets``: limit by key. ``warn``: groups whose regressions do not block. ``improvement``: one of
    ``IMPROVEMENTS``. ``time``: one of ``TIMES``. ``source``: where it is from.
    """

    budgets: Mapping[str, float] = field(default_factory=dict)
    allow: tuple[Allow, ...] = ()
    warn: tuple[str, ...] = ()
    improvement: str = "ask"
    peak_memory_tolerance: float = 0.02
    time: str = "warn"
    source: str = ""


_KEYS: Final = (*BUDGETS, "allow", "warn", "improvement", "peak_memory_tolerance", "time")
_ALLOW_KEYS: Final = ("rule", "place", "op", "reason", "until")
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]i?)?B?\s*")
_UNITS: Final = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "ki": 1 << 10, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
                 "Ti": 1 << 40}  # fmt: skip


def load_config(path: Path | None, start: Path | None = None) -> Config:
    """The configuration of ``path``; without one, that of the nearest ``pyproject.toml`` at or above ``start``.

    Raises ``ConfigError``.
    """
    if path is not None:
        return _read(path, required=True)
    folder = (start or Path.cwd()).absolute()
    for candidate in (folder, *folder.parents):
        file = candidate / "pyproject.toml"
        if file.is_file():
            return _read(file, required=False)
    return Config()


def _read(path: Path, required: bool) -> Config:
    shown = printable(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, a device never ends
            raise ConfigError(f"{shown} is not a regular file; a configuration is one.")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{shown} is too large for a configuration.")
        document = tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"))
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{shown} is no valid TOML: {error}.") from None
    tool = document.get("tool")
    table = tool.get(TABLE) if isinstance(tool, dict) else None
    if table is None:
        if "tool" in document or not required:
            return Config(source=shown) if required else Config()
        table = document  # a file of its own needs no [tool.neuron-explorer]
    if not isinstance(table, dict):
        raise ConfigError(f"{shown}: [tool.{TABLE}] is no table.")
    return config_of(table, shown)


def config_of(table: Mapping[str, Any], shown: str) -> Config:
    """The checked configuration of a table; ``shown`` names it in errors."""
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"{shown}: there is no setting {key!r}{_near(key, _KEYS)}")
    budgets = {name: _limit(BUDGETS[name], table[name], shown) for name in BUDGETS if name in table}
    warn = table.get("warn", [])
    if not isinstance(warn, list) or any(group not in GROUPS for group in warn):
        wrong = next((g for g in warn if g not in GROUPS), warn) if isinstance(warn, list) else warn
        raise ConfigError(f"{shown}: warn is a list of groups, and {wrong!r} is none{_near(str(wrong), GROUPS)}")
    improvement = table.get("improvement", "ask")
    if improvement not in IMPROVEMENTS:
        raise ConfigError(f"{shown}: improvement must be one of {', '.join(IMPROVEMENTS)}, not {improvement!r}.")
    tolerance = table.get("peak_memory_tolerance", Config.peak_memory_tolerance)
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 10:
        raise ConfigError(f"{shown}: peak_memory_tolerance must be a share like 0.02, not {tolerance!r}.")
    time = table.get("time", "warn")
    if time not in TIMES:
        raise ConfigError(f"{shown}: time must be one of {', '.join(TIMES)}, not {time!r}.")
    entries = table.get("allow", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{shown}: allow must be a list of tables, [[tool.{TABLE}.allow]].")
    allow = tuple(_allow(entry, f"{shown}, allow number {i}") for i, entry in enumerate(entries, 1))
    return Config(budgets, allow, tuple(warn), improvement, float(tolerance), time, shown)


def _near(key: str, known: Any) -> str:
    near = get_close_matches(key, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}."


def _limit(kind: BudgetKind, value: Any, shown: str) -> float:
    if isinstance(value, str) and kind.unit == "B":
        found = _SIZE.fullmatch(value)
        if found:
            return float(found[1]) * _UNITS.get(found[2] or "", 1)
    highest = 1 if kind.unit == "share" else float("inf")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
        example = {"B": '"12 GiB" or a number of bytes', "share": "a share between 0 and 1"}.get(kind.unit, "a number")
        raise ConfigError(f"{shown}: {kind.name} must be {example}, not {value!r}.")
    return float(value)


def _allow(entry: Any, where: str) -> Allow:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} is no table.")
    for key in entry:
        if key not in _ALLOW_KEYS:
            raise ConfigError(f"{where}: there is no key {key!r}{_near(key, _ALLOW_KEYS)}")
    texts = {key: entry.get(key, "") for key in ("rule", "place", "op", "reason")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {key} must be text, not {value!r}.")
    if not texts["reason"].strip():
        raise ConfigError(f"{where}: a reason is needed, so that the next reader knows why.")
    if texts["rule"] and texts["rule"] not in RULES:
        raise ConfigError(f"{where}: there is no rule {texts['rule']!r}{_near(texts['rule'], RULES)}")
    if not any(texts[key] for key in ("rule", "place", "op")):
        raise ConfigError(f"{where}: name a rule, a place or an op; else it would allow everything.")
    until = entry.get("until")
    if isinstance(until, str):
        try:
            until = date.fromisoformat(until)
        except ValueError:
            raise ConfigError(f"{where}: until must be a day like 2027-01-31, not {until!r}.") from None
    if until is not None and type(until) is not date:
        raise ConfigError(f"{where}: until must be a day like 2027-01-31, not {until!r}.")
    return Allow(**texts, until=until)
