"""A device profile: one NeuronCore from inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...device_profile import DeviceProfile, Transfers
from .collectives import read_collectives
from .dma import read_transfers
from .draft import Draft, members
from .engines import Instructions, read_instructions
from .facts import read_hardware, read_memory, read_notices, read_summary, read_tensors, read_throttling
from .hierarchy import Levels, operator_names, read_levels
from .samples import read_samples
from .tables import Tables

__all__ = ["Device", "read_device"]


@dataclass
class Device:
    """Facts of a device profile and what the trace can tell."""

    facts: DeviceProfile
    instructions: Instructions
    levels: Levels
    said: dict[str, Any]


def read_device(tables: Tables, draft: Draft, form: str, name: str) -> Device:
    """All rows of a device profile."""
    hardware, said = read_hardware(tables)
    draft.device = f"neuron:{hardware.core or 0}"
    draft.cores = min(hardware.physical_cores or 1, 64)
    instructions = read_instructions(tables, draft, operator_names(tables))
    levels = read_levels(tables, draft, instructions)
    transfers = read_transfers(tables, draft)
    collectives = read_collectives(tables, draft)
    _executions(tables, draft)
    read_samples(tables, draft)
    summary = read_summary(tables)
    seconds = summary.get("total_time")
    total = round(seconds * 1e9) if seconds and 0 < seconds < 1e9 else None
    if total is None and draft.spill.rows:
        total = draft.spill.end - draft.spill.low
    facts = DeviceProfile(
        kind="device", format=form, name=name, schema_version=tables.version, newer_schema=tables.newer,
        hardware=hardware, total_ns=total, summary=summary, engines=instructions.engines(total), transfers=transfers,
        compute=instructions.compute(), tensors=read_tensors(tables), throttling=read_throttling(tables),
        memory=read_memory(tables), collectives=collectives, notices=read_notices(tables, draft),
        tables=dict(sorted(tables.read.items())), absent=_absent(tables, instructions, levels, transfers),
    )  # fmt: skip
    return Device(facts, instructions, levels, said)


def _absent(tables: Tables, instructions: Instructions, levels: Levels, transfers: Transfers) -> dict[str, str]:
    """Why something is not there (what the reader may have expected)."""
    found = {}
    if not instructions.rows:
        found["instructions"] = "the profile has no instructions"
    elif not instructions.with_line:
        found["source_lines"] = (
            "the model was compiled without NEURON_FRAMEWORK_DEBUG=1 (of a kernel: NKI_DEBUG_INFO), so no "
            "instruction has a line"
        )
    if "operators" not in levels.found:
        found["framework"] = "the model was compiled without XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1"
    if transfers.source != "DmaPacket":
        found["packets"] = "recorded without NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1"
    if not tables.read.get("Summary"):
        found["summary"] = "the profile has no summary"
    return found


def _executions(tables: Tables, draft: Draft) -> None:
    columns = ("execution_index", "neff_name", "execution_start_ts", "execution_end_ts")
    for batch in tables.batches("ExecutionInfo", columns):
        begins = batch.ints("execution_start_ts")
        if not (begins >= 0).any():
            continue  # older files do not tell the times
        times = draft.times(batch, "execution_start_ts", "execution_end_ts")
        order = times.at.tolist()
        names, index = batch.list("neff_name"), batch.ints("execution_index")
        lane = draft.lanes.number("executions", "executions", "executions", device=draft.device)
        draft.add(
            "range", len(order), name=[f"execution {index[i]}" if index[i] >= 0 else "execution" for i in order],
            start=times.start, duration=times.duration, lane=np.full(len(order), lane),
            detail=members(len(order), neff=[names[i] for i in order]),
        )  # fmt: skip
