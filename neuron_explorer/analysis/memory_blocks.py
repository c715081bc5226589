"""Blocks of memory: when each came and went, of which device, allocated where.

Everything else about memory is worked out from these. Blocks are counted from one allocator's rows of
kind `memory` in the order of their starts (rows of one thread at the same start in the order in
which they were written).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from neuron_explorer.analysis.detail import detail_of
from neuron_explorer.analysis.kept import kept
from neuron_explorer.analysis.plain import plain

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace

BEFORE: Final = -1
"""``born`` of a block that was there before the recording."""
MOST_BYTES: Final = 1 << 40
"""No block is larger: rows that say so are set aside and counted."""
ROLES: Final = {"parameter": 1, "buffer": 2, "optimizer state": 4, "gradient": 8}
"""What a block was seen to hold: the bits of ``Blocks.roles``."""

_NUMBERS: Final = ("start", "id", "correlation", "rank", "process", "line", "step", "parent")
_TEXTS: Final = ("name", "device", "detail", "file", "function", "module", "phase")
_BIRTHS: Final = ("allocate", "found")


@dataclass(frozen=True)
class Owner:
    """One allocator of one process: its blocks are counted by themselves."""

    rank: int
    process: int
    device: str


@dataclass(frozen=True)
class Texts:
    """A column of texts as codes; -1 is none. One entry a row of memory."""

    codes: np.ndarray
    values: tuple[str, ...]

    def at(self, row: int) -> str:
        """The text of a row, "" for none."""
        code = int(self.codes[row]) if row >= 0 else -1
        return self.values[code] if code >= 0 else ""


@dataclass(frozen=True)
class Rows:
    """The rows about memory, in order. Times in ns; ``line`` -1 for none."""

    start: np.ndarray
    owner: np.ndarray
    file: Texts
    line: np.ndarray
    function: Texts
    module: Texts
    phase: Texts
    step: np.ndarray
    parent: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Blocks:
    """Blocks, an entry each. ``born`` and ``died`` are positions among ``rows`` (BEFORE: there from the start;
    ``len(rows)``: there at the end); a block is alive at position p where born <= p < died. ``row``: the
    position of the row that tells where it was allocated, -1 for none. ``late``: it went before ``died``.
    ``noted``: positions of the rows that name gradients. ``levels``: per owner, position, allocated and
    reserved bytes as its allocator said. ``nameless``: rows that do not tell which block they are about.
    ``odd``: rows that make no sense. Neither are used.
    """

    owners: tuple[Owner, ...]
    rows: Rows
    owner: np.ndarray
    bytes: np.ndarray
    born: np.ndarray
    died: np.ndarray
    row: np.ndarray
    roles: np.ndarray
    late: np.ndarray
    levels: dict[int, np.ndarray]
    noted: np.ndarray
    nameless: int
    odd: int

    def __len__(self) -> int:
        return len(self.owner)


def blocks(trace: Trace) -> Blocks:
    """All blocks of the trace."""
    return kept(trace, "memory blocks", lambda: _read(trace))


def _read(trace: Trace) -> Blocks:
    table = trace.read((*_NUMBERS, *_TEXTS), kinds=("memory",)).combine_chunks()
    number = {n: _integers(table, n) for n in _NUMBERS}
    text = {n: _texts(table, n) for n in _TEXTS}
    if not _ascending(number["start"], number["id"]):
        order = np.lexsort((number["id"], number["start"]))
        number = {n: v[order] for n, v in number.items()}
        text = {n: Texts(v.codes[order], v.values) for n, v in text.items()}
    amounts, bad = _amounts(text["detail"])
    owner, owners = _owners(number["rank"], number["process"], text["device"])
    rows = Rows(
        number["start"], owner, text["file"], number["line"], text["function"], text["module"], text["phase"],
        number["step"], number["parent"],
    )  # fmt: skip
    return _paired(rows, owners, text["name"], number["correlation"], amounts, bad)


def _ascending(start: np.ndarray, number: np.ndarray) -> bool:
    """Whether rows are in order of their starts, and those of one start in order of their ids."""
    step = np.diff(start)
    if len(step) and step.min() < 0:
        return False
    same = np.flatnonzero(step == 0)
    return bool((number[same] <= number[same + 1]).all())


def _dense(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different integers, ascending, and for each value its place among them."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, -1)
    if high - low >= 4 * len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.reshape(-1)
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[values - low]


def _integers(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy().astype(np.int64)


def _texts(table: pa.Table, name: str) -> Texts:
    column = table[name]
    if not len(column):
        return Texts(np.zeros(0, np.int32), ())
    joined = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0)
    codes = joined.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return Texts(codes, tuple(v or "" for v in joined.dictionary.to_pylist()))


@dataclass(frozen=True)
class _Amounts:
    bytes: np.ndarray
    late: np.ndarray
    told: np.ndarray
    allocated: np.ndarray
    reserved: np.ndarray


def _amounts(detail: Texts) -> tuple[_Amounts, np.ndarray]:
    """What each row's ``detail`` says, and which rows say nothing that can be used."""
    parsed = [detail_of(v) if len(v) < 4096 else {} for v in detail.values]
    columns = [np.array([_whole(d.get(n)) for d in parsed] + [0], np.int64) for n in ("bytes", "allocated", "reserved")]
    late = np.array([d.get("late") is True for d in parsed] + [False])
    usable = np.array([any(_fits(d.get(n)) for n in ("bytes", "allocated")) for d in parsed] + [False])
    at = detail.codes
    told = np.array([_fits(d.get("allocated")) for d in parsed] + [False])
    return _Amounts(columns[0][at], late[at], told[at], columns[1][at], columns[2][at]), ~usable[at]


def _fits(value: Any) -> bool:
    return type(value) is int and abs(value) <= MOST_BYTES


def _whole(value: Any) -> int:
    return value if _fits(value) else 0


def _owners(rank: np.ndarray, process: np.ndarray, device: Texts) -> tuple[np.ndarray, tuple[Owner, ...]]:
    if not len(rank):
        return np.zeros(0, np.int64), ()
    ranks, of_rank = _dense(rank)
    processes, of_process = _dense(process)
    width = len(device.values) + 1
    codes = (of_rank * len(processes) + of_process) * width + device.codes + 1
    found, owner = _dense(codes)
    owners = []
    for code in found.tolist():
        place, named = divmod(code, width)
        first, second = divmod(place, len(processes))
        name = plain(device.values[named - 1], 40) if named else ""
        owners.append(Owner(int(ranks[first]), int(processes[second]), name))
    return owner, tuple(owners)


def _paired(
    rows: Rows, owners: tuple[Owner, ...], word: Texts, number: np.ndarray, amounts: _Amounts, bad: np.ndarray
) -> Blocks:
    count = len(rows)

    def of(*names: str) -> np.ndarray:
        codes = [i for i, v in enumerate(word.values) if v in names]
        return np.isin(word.codes, codes) & ~bad

    birth, release = of(*_BIRTHS) & (amounts.bytes > 0), of("release") & (amounts.bytes < 0)
    key = _keys(rows.owner, number)
    moves = np.flatnonzero((birth | release) & (number >= 0))
    moves = moves[np.argsort(key[moves], kind="stable")]
    following = np.full(len(moves), count)
    same = key[moves[1:]] == key[moves[:-1]]
    following[:-1][same] = moves[1:][same]
    is_birth = birth[moves]
    born_rows = moves[is_birth]
    died = following[is_birth]
    came_from = np.zeros(len(moves), bool)  # a release that a birth precedes
    came_from[1:] = same & is_birth[:-1]
    # Where allocations have no number, nobody knows what a release without one gives back.
    nameless = birth & (number < 0)
    blind = np.zeros(len(owners) + 1, bool)
    blind[rows.owner[nameless]] = True
    nameless |= release & (number < 0) & blind[rows.owner]
    strays = np.concatenate([moves[~is_birth & ~came_from], np.flatnonzero(release & (number < 0) & ~nameless)])
    found = of("found")[born_rows]
    gone = np.minimum(died, count - 1)
    late = (died < count) & release[gone] & amounts.late[gone] if count else np.zeros(0, bool)
    roles = _roles(key, moves[is_birth], {bit: np.flatnonzero(of(name)) for name, bit in ROLES.items()}, count)
    parts = {
        "owner": [rows.owner[born_rows], rows.owner[strays]],
        "bytes": [amounts.bytes[born_rows], -amounts.bytes[strays]],
        "born": [np.where(found, BEFORE, born_rows), np.full(len(strays), BEFORE)],
        "died": [died, strays],
        "row": [np.where(found, -1, born_rows), np.full(len(strays), -1)],
        "roles": [roles, np.zeros(len(strays), np.int64)],
        "late": [late, np.zeros(len(strays), bool)],
    }
    # An imported trace has the totals in the rows themselves; those of the host count from the start only.
    host = np.array([o.device == "cpu" for o in owners] + [False])
    levels = np.flatnonzero(of("level") | (amounts.told & ~host[rows.owner] & (birth | release)))
    told = {
        o: np.stack([mine, amounts.allocated[mine], amounts.reserved[mine]], axis=1)
        for o in range(len(owners))
        if len(mine := levels[rows.owner[levels] == o])
    }
    _add_unseen(parts, told, count)
    joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    used = birth | release | of("level", *ROLES)
    return Blocks(
        owners, rows, **joined, levels=told, noted=np.flatnonzero(of("gradient")), nameless=int(nameless.sum()),
        odd=int((~used).sum()),
    )  # fmt: skip


def _keys(owner: np.ndarray, number: np.ndarray) -> np.ndarray:
    """One integer for owner and number: a block is known by its number in its process."""
    _, dense = _dense(number)
    return owner.astype(np.int64) * (len(number) + 1) + dense


def _roles(key: np.ndarray, births: np.ndarray, said: dict[int, np.ndarray], count: int) -> np.ndarray:
    """What each block was seen to hold: a row about it comes after its birth and before what follows.

    ``births``: by key, then by position. ``said``: positions of the rows that say so, by bit.
    """
    roles = np.zeros(len(births), np.int64)
    if not len(births):
        return roles
    ordered = key[births] * (count + 1) + births
    for bit, rows in said.items():
        at: Any = np.searchsorted(ordered, key[rows] * (count + 1) + rows, "right") - 1
        known = (at >= 0) & (key[births[np.maximum(at, 0)]] == key[rows])
        roles[at[known]] |= bit
    return roles


def _add_unseen(parts: dict[str, list[np.ndarray]], told: dict[int, np.ndarray], count: int) -> None:
    """What an allocator said was allocated when it was first heard, beyond the blocks that are known."""
    known = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    for owner, levels in told.items():
        at, allocated = int(levels[0, 0]), int(levels[0, 1])
        alive = (known["owner"] == owner) & (known["born"] <= at) & (known["died"] > at)
        rest = allocated - int(known["bytes"][alive].sum())
        if rest > 0:
            entry = {"owner": owner, "bytes": rest, "born": BEFORE, "died": count, "row": -1, "roles": 0, "late": False}
            for name, value in entry.items():
                parts[name].append(np.array([value], parts[name][0].dtype))
