"""The tables of all processes of a spool, merged: global ids in, column codes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from .collective_facts import WAIT_PREFIX, is_wait, operation_of
from .frames import Frames, code_facts, frames_of
from .graph_lines import GraphLines
from .modules import module_paths
from .paths import PathRules
from .spool_reader import ProcessSpool
from .text import TextTable

SIGNATURE_COLUMNS: Final = ("shapes", "strides", "dtypes", "arguments", "device")

# What a name says about the event that carries it; bits of `Lookups.traits`.
OPTIMIZER_STEP: Final = 1
COMPILING: Final = 2
LAUNCH: Final = 4
DATA_WAIT: Final = 8
READ_SCALAR: Final = 16
TO_COPY: Final = 32
DEVICE_COPY: Final = 64
GRAPH_ROOT: Final = 128
ENGINE: Final = 256
DYNAMO: Final = 512
FALLBACK: Final = 1024
COPY_TO_HOST: Final = 2048
COPY_TO_DEVICE: Final = 4096
ARTIFACT: Final = 8192
COPY: Final = 16384
COLLECTIVE: Final = 1 << 15
COLLECTIVE_WAIT: Final = 1 << 16
FLIGHT: Final = 1 << 17

NAMES_DEVICE: Final = re.compile(r'"((?:cpu|cuda|hpu|mps|mtia|neuron|npu|privateuseone|xla|xpu)(?::\d+)?)"')
_LAUNCH_PREFIX: Final = "Torch-Compiled Region: "
# What the emulated device says about its own work.
_NEURON: Final = {
    "neuron_cpu_fallback": FALLBACK,
    "neuron::copy_to_host": COPY_TO_HOST,
    "neuron::copy_to_device": COPY_TO_DEVICE,
    "neuron::compile": ARTIFACT | COMPILING,
}


@dataclass(frozen=True)
class Bases:
    """What to add to one process's ids to make them global; id 0 stays 0."""

    name: int
    signature: int
    frame: int
    module: int


@dataclass(frozen=True)
class Lookups:
    """Global tables. Arrays are indexed by global id and hold text codes; index 0 is "none"."""

    names: TextTable
    name: np.ndarray
    traits: np.ndarray
    compile_ids: TextTable
    compile_id: np.ndarray
    signature_texts: dict[str, TextTable]
    signature: dict[str, np.ndarray]
    raw_signatures: list[tuple[str, ...]]  # per signature: its five texts, all devices in the last
    on_device: np.ndarray  # per signature: the first tensor is not on the CPU
    converts: np.ndarray  # per signature: from the CPU to a device that an argument names, or back
    crosses: np.ndarray  # per signature: tensors of several devices
    frames: Frames
    files: TextTable
    functions: TextTable
    modules: TextTable
    module: np.ndarray
    bases: list[Bases]


def merge(processes: list[ProcessSpool], rules: PathRules, graph_lines: GraphLines | None = None) -> Lookups:
    """The lookups of a spool. The first process's ids stay what they are."""
    tables = [p.tables for p in processes]
    names, compile_ids, modules = TextTable(), TextTable(), TextTable()
    files, functions = TextTable(), TextTable()
    bases, at = [], Bases(0, 0, 0, 0)
    for t in tables:
        bases.append(at)
        at = Bases(
            at.name + len(t.names) - 1,
            at.signature + len(t.signatures) - 1,
            at.frame + len(t.frame_parent) - 1,
            at.module + len(t.modules) - 1,
        )
    all_names = ["", *(n for t in tables for n in t.names[1:])]
    signatures = [("",) * 5, *(s for t in tables for s in t.signatures[1:])]
    texts = {c: TextTable() for c in SIGNATURE_COLUMNS}
    columns = {c: texts[c].codes(s[i] for s in signatures) for i, c in enumerate(SIGNATURE_COLUMNS[:-1])}
    columns["device"] = texts["device"].codes(s[4].partition(" ")[0] for s in signatures)
    return Lookups(
        names=names,
        name=names.codes(all_names),
        traits=np.fromiter((_traits(n) for n in all_names), np.uint32),
        compile_ids=compile_ids,
        compile_id=compile_ids.codes(_compile_id(n) for n in all_names),
        signature_texts=texts,
        signature=columns,
        raw_signatures=signatures,
        on_device=np.fromiter((bool(s[4]) and not s[4].startswith("cpu") for s in signatures), bool),
        converts=np.fromiter((_converts(s[4], s[3]) for s in signatures), bool),
        crosses=np.fromiter((" " in s[4] for s in signatures), bool),
        frames=_frames(processes, rules, files, functions, graph_lines or GraphLines({})),
        files=files,
        functions=functions,
        modules=modules,
        module=modules.codes(["", *(p for t in tables for p in module_paths(t.modules)[1:])]),
        bases=bases,
    )


def _converts(devices: str, arguments: str) -> bool:
    """Whether an argument names a device of the other sort than the first tensor's."""
    named = NAMES_DEVICE.search(arguments) if devices else None
    return named is not None and (named[1] == "cpu") != (devices.partition(" ")[0] == "cpu")


def globally(ids: np.ndarray, base: int, limit: int) -> np.ndarray:
    """Ids of one process as global ids; what lies beyond a torn table (``limit``) is none."""
    if base == 0:
        return np.where(ids < limit, ids, 0)
    return np.where((ids > 0) & (ids < limit), ids + np.uint32(base), 0)


def _frames(
    processes: list[ProcessSpool], rules: PathRules, files: TextTable, functions: TextTable, graph_lines: GraphLines
) -> Frames:
    codes = [("", "", 0)]
    from_graph = [np.zeros(1, bool)]
    parents, code_ids, lines = [np.zeros(1, np.int32)], [np.zeros(1, np.int32)], [np.full(1, -1, np.int32)]
    frame_base = 0
    for process in processes:
        t, first = process.tables, len(codes)
        parent = np.frombuffer(t.frame_parent, np.uint32)[1:].astype(np.int32)
        code = np.frombuffer(t.frame_code, np.uint32)[1:].astype(np.int32)
        parents.append(np.where(parent > 0, parent + frame_base, 0).astype(np.int32))
        code_ids.append(np.where(code > 0, code + len(codes) - 1, 0).astype(np.int32))
        lines.append(np.frombuffer(t.frame_line, np.int32)[1:].copy())
        frame_base += len(parent)
        codes.extend(t.codes[1:])
        if process.role == "spawned":  # its compiler numbers graphs anew
            from_graph.append(np.zeros(len(parent), bool))
        else:
            from_graph.append(graph_lines.replace(codes, first, code_ids[-1], lines[-1], rules))
    facts = code_facts(codes, rules, files, functions)
    return frames_of(
        np.concatenate(parents), np.concatenate(code_ids), np.concatenate(lines), facts, np.concatenate(from_graph)
    )


def _traits(name: str) -> int:
    if name.startswith("aten::"):
        base = name.split(".", 1)[0]
        # Not aten::item and the like: they wait in the operator below them, which is counted.
        if base in ("aten::_local_scalar_dense", "aten::equal"):
            return READ_SCALAR
        if base == "aten::copy_":
            return COPY
        if base in ("aten::_to_copy", "aten::to"):
            return TO_COPY
        return DEVICE_COPY if base in ("aten::_copy_from", "aten::_copy_from_and_resize") else 0
    if name in _NEURON:
        return _NEURON[name]
    if name.startswith(WAIT_PREFIX) or is_wait(name):
        return COLLECTIVE_WAIT
    if operation_of(name):
        return FLIGHT if name.startswith("gloo:") else COLLECTIVE
    if name.startswith("Optimizer.step#"):
        return OPTIMIZER_STEP
    if name.startswith(_LAUNCH_PREFIX):
        return LAUNCH
    if name.startswith("enumerate(DataLoader)#") and name.endswith("__next__"):
        return DATA_WAIT
    if name.startswith("TorchDynamo "):
        return DYNAMO
    graph_root = GRAPH_ROOT if name.endswith("GraphRoot") else 0
    if name.startswith("autograd::engine::evaluate_function"):
        return ENGINE | graph_root
    if graph_root:
        return graph_root
    return COMPILING if name.endswith("(dynamo_timed)") and "compile" in name else 0


def _compile_id(name: str) -> str:
    return name[len(_LAUNCH_PREFIX) :].strip() if name.startswith(_LAUNCH_PREFIX) else ""
