"""Instructions of the compute engines: a lane for each engine (and row of it) of each core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ...device_profile import ENGINES, Compute, EngineUse
from .busy import Busy
from .draft import Draft, known, members
from .lanes import SHOWN, engine_name
from .names import module_path
from .stacks import NOWHERE, Place, Places
from .tables import Batch, Tables
from .values import MISSING

__all__ = ["LEVELS", "Instructions", "core_prefix", "read_instructions"]

LEVELS: Final = ("raw_framework_id", "raw_hlo_id", "raw_penguin_id", "raw_bir_id")
MOST_PLACES: Final = 1_000_000
_SUMS: Final = ("raw_flops", "adjusted_flops", "flops_transpose", "adjusted_flops_transpose")
_COLUMNS: Final = (
    "start_ts", "end_ts", "duration_ns", "engine", "timeline_track", "pcore_idx", "opcode", "operands",
    "compiler_opcode", "id", "kernel_instruction_name", "evt_wait_time_ns", "dma_wait_time_ns", "hlo_name", "layer",
    "stack_frame_ids", "nki_source_location", "bir_debug_info_source_location", "hbm_read_bytes", "hbm_write_bytes",
    "spill_save_bytes", "spill_reload_bytes", "performance_mode", "tensor_instruction_type", "scalar_activation_fn",
    *_SUMS, *LEVELS,
)  # fmt: skip


@dataclass
class _Use:
    instructions: int = 0
    kernel: int = 0
    wait: int = 0
    waited: bool = False
    busy: Busy = field(default_factory=Busy)
    active: Busy | None = None


@dataclass
class Instructions:
    """What all instructions say together, for the facts and for the levels above them."""

    uses: dict[tuple[str, int], _Use] = field(default_factory=dict)
    places: dict[str, dict[int, Place]] = field(default_factory=lambda: {level: {} for level in LEVELS})
    flops: dict[str, dict[int, int]] = field(default_factory=lambda: {level: {} for level in LEVELS})
    """FLOPs by the ids of each level."""
    matmuls: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    with_line: int = 0
    with_module: int = 0
    tells_kernels: bool = False

    def engines(self, total_ns: int | None) -> tuple[EngineUse, ...]:
        """Facts of each engine, tensor first."""
        found = []
        for (engine, core), use in sorted(
            self.uses.items(), key=lambda e: (e[0][1], ENGINES.index(e[0][0]) if e[0][0] in ENGINES else 9, e[0][0])
        ):
            active = (use.active or use.busy).ns
            found.append(EngineUse(
                engine, core, active, active / total_ns if total_ns else None, use.instructions or None,
                use.kernel if self.tells_kernels and use.instructions else None, use.wait if use.waited else None,
            ))  # fmt: skip
        return tuple(found)

    def compute(self) -> Compute:
        """Arithmetic of the tensor engine."""
        said = [self.sums.get(name) for name in _SUMS]
        return Compute(self.matmuls if self.rows else None, *said)


def read_instructions(tables: Tables, draft: Draft, ops: dict[int, str]) -> Instructions:
    """Rows of kind ``device``. ``ops``: names of framework operators by ``raw_framework_id``."""
    found = Instructions()
    places = Places(tables, draft.frames, draft.losses)
    for batch in tables.batches("Instruction", _COLUMNS):
        _rows(batch, draft, places, ops, found)
    for batch in tables.batches("ActiveTime", ("start_ts", "end_ts", "duration_ns", "engine", "pcore_idx")):
        times = draft.times(batch)
        names = [engine_name(t) for t in batch.list("engine")]
        core = np.maximum(batch.ints("pcore_idx"), 0)[times.at]
        engines = np.array(names, object)[times.at]
        for key in sorted({(e, int(c)) for e, c in zip(engines.tolist(), core.tolist(), strict=True) if e}):
            mine = (engines == key[0]) & (core == key[1])
            use = found.uses.setdefault(key, _Use())
            use.active = use.active or Busy()
            use.active.add(times.start[mine], times.end[mine])
    return found


def _rows(batch: Batch, draft: Draft, places: Places, ops: dict[int, str], found: Instructions) -> None:
    times = draft.times(batch)
    at = times.at
    if not len(at):
        return
    engine = [engine_name(t) or "unknown" for t in _taken(batch, "engine", at)]
    track = [t or "" for t in _taken(batch, "timeline_track", at)]
    core = np.maximum(batch.ints("pcore_idx"), 0)[at]
    lane = [_lane(draft, *key) for key in zip(engine, track, core.tolist(), strict=True)]
    levels = {level: batch.ints(level)[at] for level in LEVELS}
    kernel, nki = (_taken(batch, n, at) for n in ("kernel_instruction_name", "nki_source_location"))
    where = [
        places.place(*key)
        for key in zip(_taken(batch, "stack_frame_ids", at), kernel, nki,
                       _taken(batch, "bir_debug_info_source_location", at), strict=True)
    ]  # fmt: skip
    layer = _taken(batch, "layer", at)
    framework = levels["raw_framework_id"]
    op = [ops.get(n) for n in framework.tolist()]
    module = [module_path(t) for t in layer]
    wait = batch.ints("evt_wait_time_ns")[at]
    numbers = {name: batch.ints(name)[at] for name in (*_SUMS, "hbm_read_bytes", "hbm_write_bytes")}
    opcode = [t or "(no opcode)" for t in _taken(batch, "opcode", at)]
    compiled = [c if c != o else None for c, o in zip(_taken(batch, "compiler_opcode", at), opcode, strict=True)]
    kind_of_matmul = _taken(batch, "tensor_instruction_type", at)
    detail = members(
        len(at), engine=engine, track=[t or None for t in track], operator=op, layer=layer,
        hlo=_taken(batch, "hlo_name", at), compiler_opcode=compiled, operands=_taken(batch, "operands", at),
        kernel_instruction=kernel, type=kind_of_matmul, function=_taken(batch, "scalar_activation_fn", at),
        performance_mode=_taken(batch, "performance_mode", at), wait_ns=wait,
        dma_wait_ns=batch.ints("dma_wait_time_ns")[at], adjusted_flops=numbers["adjusted_flops"],
        spill_save_bytes=batch.ints("spill_save_bytes")[at], spill_reload_bytes=batch.ints("spill_reload_bytes")[at],
        stacks=_several(_taken(batch, "stack_frame_ids", at)),
    )  # fmt: skip
    draft.add(
        "device", len(at), name=opcode, start=times.start, duration=times.duration, lane=lane,
        **place_columns(where), module=module, bytes_read=known(numbers["hbm_read_bytes"]),
        bytes_written=known(numbers["hbm_write_bytes"]), flops=known(numbers["raw_flops"]),
        external_id=np.where(framework == MISSING, -1, framework), source_index=_ids(batch.ints("id")[at]),
        detail=detail,
    )  # fmt: skip
    found.rows += len(at)
    found.with_line += sum(w.line > 0 for w in where)
    found.with_module += sum(m is not None for m in module)
    found.tells_kernels |= batch.has("nki_source_location") or batch.has("kernel_instruction_name")
    _count(found, engine, core, times.start, times.end, wait, kernel, nki)
    for name in _SUMS:
        if (numbers[name] != MISSING).any():
            found.sums[name] = found.sums.get(name, 0) + int(known(numbers[name]).clip(0).sum())
    found.matmuls += sum("MATMUL" in o.upper() for o in opcode)
    for level, ids in levels.items():
        of_level = found.places[level]
        for number, place in zip(ids.tolist(), where, strict=True):
            if number != MISSING and place.line > 0 and len(of_level) < MOST_PLACES:
                of_level.setdefault(number, place)
        told = (ids != MISSING) & (numbers["raw_flops"] >= 0)
        which, position = np.unique(ids[told], return_inverse=True)
        sums = np.zeros(len(which), np.int64)
        np.add.at(sums, position, np.minimum(numbers["raw_flops"][told], 1 << 40))
        by_id = found.flops[level]
        for number, flops in zip(which.tolist(), sums.tolist(), strict=True):
            if number in by_id or len(by_id) < MOST_PLACES:
                by_id[number] = by_id.get(number, 0) + flops


def _count(
    found: Instructions, engine: list[str], core: np.ndarray, start: np.ndarray, end: np.ndarray, wait: np.ndarray,
    kernel: list[str | None], nki: list[str | None],
) -> None:  # fmt: skip
    names = np.array(engine, object)
    hand = np.array([bool(k or n) for k, n in zip(kernel, nki, strict=True)])
    for key in sorted(set(zip(engine, core.tolist(), strict=True))):
        mine = (names == key[0]) & (core == key[1])
        use = found.uses.setdefault(key, _Use())
        use.instructions += int(mine.sum())
        use.kernel += int((mine & hand).sum())
        waited = mine & (wait >= 0)
        use.waited |= bool(waited.any())
        use.wait += int(wait[waited].sum())
        use.busy.add(start[mine], end[mine])


def place_columns(where: list[Place]) -> dict[str, Any]:
    """The columns that say where rows come from."""
    return {
        "stack": [w.frame if w.frame > 0 else -1 for w in where], "file": [w.file or None for w in where],
        "line": [w.line for w in where], "function": [w.function or None for w in where],
        "attribution": ["compiled_graph" if w is not NOWHERE else "not_recorded" for w in where],
    }  # fmt: skip


def core_prefix(draft: Draft, core: int) -> str:
    """What a lane's name begins with where a NeuronCore has two physical cores."""
    return f"core {core} " if draft.cores > 1 or core > 0 else ""


def _lane(draft: Draft, engine: str, track: str, core: int) -> int:
    several = draft.cores > 1 or core > 0
    name = SHOWN.get(engine, engine) if several else SHOWN.get(engine, engine) + " engine"
    if track and track.lower() not in (engine, f"{engine}_engine"):
        name = track[:80]
    position = ENGINES.index(engine) if engine in ENGINES else len(ENGINES)
    return draft.lanes.number(
        "engine", (engine, name, core), core_prefix(draft, core) + name, (core, position), device=draft.device
    )


def _several(stacks: list[str | None]) -> list[str | None]:
    """The ids of the stacks where an instruction has more than the one that is shown."""
    return [s[:500] if s and "," in s else None for s in stacks]


def _taken(batch: Batch, name: str, at: np.ndarray) -> list[str | None]:
    array = batch.texts(name)
    return (array if len(at) == batch.rows else array.take(pa.array(at))).to_pylist()


def _ids(values: np.ndarray) -> np.ndarray:
    return np.where(values == MISSING, -1, values)
