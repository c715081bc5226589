"""Metadata of an imported trace, and the report of the import."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from .... import __version__
from ...metadata import CAPABILITIES, capability, default_metadata
from ..report import ImportReport, Skipped
from .collect import Collected
from .frames import FrameTree
from .kinds import KINDS
from .layout import Made
from .nested import Nested
from .own import KEY, own_metadata
from .records import FAULTS
from .tally import ATTRIBUTIONS, Tally
from .texts import loads

__all__ = ["Facts", "facts_of", "metadata_of", "report_of"]

_WHY: Final = {
    **dict(FAULTS),
    "events without a start (ts)": "when they were is not known",
    "events with an impossible start (ts)": "it is no number, or none that a clock shows",
    "events more than a week from the others": "their start cannot be true",
    "events with an impossible duration (dur)": "negative, or no number; they are kept without one",
    "events without an end": "kept, as events that never ended",
    "begins without an end": "kept, as events that never ended",
    "ends without a begin": "what they end did not begin in the file",
    "events without a kind (ph)": "what they are is not known",
    "events without a kind (ph), taken for slices": "they have a start and a duration",
    "events whose arguments are no object": "kept, without arguments",
    "arguments nested deeper than 64": "left out",
    "texts longer than 256 KiB, cut or left out": "more than a trace keeps",
    "texts beyond 512 MiB": "more than a trace keeps",
    "details of events beyond 256 MiB": "more than a trace keeps",
    "metadata events": "they name processes and threads, and became lanes",
    "Python calls": "they became the stacks of what ran in them",
    "flows": "they became links between events",
    "flows that repeat the events' own links": "the events say themselves what started them",
    "flow ends without a start, or without an event": "what they point from or to is not in the file",
    "spans of the profiler itself": "they say nothing about the run",
    "marks of the profiler itself": "they say nothing about the run",
    "empty entries": "they say nothing",
    "Python frames beyond 1,000,000": "more than a trace keeps",
}  # fmt: skip
_HARMLESS: Final = frozenset({
    "metadata events", "Python calls", "flows", "flows that repeat the events' own links",
    "spans of the profiler itself", "marks of the profiler itself", "empty entries",
    "events without a comma before them",
})  # fmt: skip
_KEPT: Final = frozenset({
    "events with an impossible duration (dur)", "events without an end", "begins without an end",
    "events without a kind (ph), taken for slices",
})  # fmt: skip


class Facts:
    """What the document around the events says of the run."""

    def __init__(self, found: Collected) -> None:
        values = {key.decode("utf-8", "replace"): loads(raw) for key, raw in found.header.items() if len(raw) < 4 << 20}
        self.values = values
        distributed = values.get("distributedInfo")
        distributed = distributed if isinstance(distributed, dict) else {}
        self.rank = _small(distributed.get("rank"), 0)
        self.world_size = max(_small(distributed.get("world_size"), 1), self.rank + 1)
        self.has_rank = "rank" in distributed
        self.distributed = distributed
        base = values.get("baseTimeNanoseconds")
        self.base_ns = base if type(base) is int and 0 <= base < 1 << 62 else None
        devices = values.get("deviceProperties")
        devices = [d for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
        self.device_name = next((str(d["name"])[:200] for d in devices if d.get("name")), "")
        self.devices = devices[:64]
        self.own = own_metadata(values.get(KEY))

    def versions(self) -> dict[str, str]:
        """Versions, as far as such a file tells."""
        found = {}
        for key in ("pytorch_version", "torch_version"):
            if isinstance(self.values.get(key), str):
                found["torch"] = self.values[key][:100]
        return found


def facts_of(found: Collected) -> Facts:
    """The facts."""
    return Facts(found)


def metadata_of(
    found: Collected, nested: Nested, made: Made, tally: Tally, facts: Facts, tree: FrameTree, report: ImportReport,
    source_files: int,
) -> dict[str, Any]:  # fmt: skip
    """The metadata document."""
    document = default_metadata()
    document["start_unix_ns"] = _unix(nested.start, facts)
    document["duration_ns"] = nested.end - nested.start
    document["versions"] |= {"neuron_explorer": __version__} | facts.versions()
    device = next((entry["device"] for entry in made.table if entry["device"]), None)
    torch = found.dialect.format == "torch.profiler"
    if device:
        document["device"] = {"type": device.split(":")[0], "name": facts.device_name, "emulated": False}
    else:
        document["device"] = {"type": "cpu" if torch else "unknown", "name": "", "emulated": False}
    document["rank"], document["world_size"] = facts.rank, facts.world_size
    document["recorder"] = "import"
    document["recorder_reason"] = f"from {found.dialect.title}"
    document["capabilities"] = _capabilities(found, made, tally, tree)
    document["lanes"] = made.table
    steps = made.steps
    count = len(steps.number)
    document["steps"] = {
        "rule": steps.rule, "rule_text": steps.text, "count": count, "steady": max(0, count - 1),
        "note": "" if count > 5 else "not enough steps",
    }  # fmt: skip
    document["attribution"] = {
        "op_time_ns": int(tally.attribution_self.sum()), "op_time_with_line_ns": tally.with_line,
        "by_attribution": {
            name: {"events": int(n), "self_ns": int(s)}
            for name, n, s in zip(ATTRIBUTIONS, tally.attribution, tally.attribution_self, strict=True) if n
        },
    }  # fmt: skip
    losses = found.losses.counts
    document["counts"] |= {
        "events": tally.events, "by_kind": {KINDS[k]: int(n) for k, n in enumerate(tally.by_kind) if n},
        "unended": losses["events without an end"] + losses["begins without an end"],
        "quarantined": losses["events with an impossible duration (dur)"],
        "torn_records": losses["events cut at the end of the file"],
        "import_losses": sum(s.number for s in report.losses if s.what not in _KEPT
                             and s.what != "events cut at the end of the file"),
    }  # fmt: skip
    document["finished"] = found.complete and not found.source.damage
    document["import"] = report.metadata()
    if facts.devices:
        document["device_properties"] = facts.devices
    if facts.distributed:
        document["distributed"] = {k: v for k, v in facts.distributed.items() if k in (
            "backend", "rank", "world_size", "pg_count", "pg_config", "nccl_version")}  # fmt: skip
    if facts.own:
        document |= facts.own | {"steps": document["steps"] | facts.own["steps"]}
    document["discloses"] |= {"arguments": tally.arguments, "source": "all" if source_files else "none",
                              "paths": "absolute" if _absolute(tree) else "relative"}  # fmt: skip
    return document


def report_of(
    found: Collected, nested: Nested, tally: Tally, output: Path, facts: Facts, frames: int, calls_alone: bool = False
) -> ImportReport:
    """What was read and what was not."""
    losses = found.losses
    by_kind = {KINDS[k]: int(n) for k, n in enumerate(tally.by_kind) if n}
    read = {"events": tally.events, **{f"of kind {k}": n for k, n in sorted(by_kind.items(), key=lambda x: -x[1])}}
    if frames:
        read["frames of Python stacks"] = frames
    skipped = []
    for what, number in losses.counts.most_common():
        where = losses.where.get(what, -1)
        skipped.append(Skipped(what, number, _WHY.get(what, "a trace has no place for them"),
                               f"byte {where:,}" if where >= 0 else "", what in _HARMLESS))  # fmt: skip
    notes = []
    source = found.source
    if source.damage:
        notes.append(f"The file is damaged after {source.unpacked:,} bytes of text: {source.damage}.")
    elif not found.complete:
        notes.append("The file ends before the document does: it was cut, or is still being written.")
    if calls_alone:
        notes.append("It holds calls of Python and no operators: each call is kept as an operator, named as it is.")
    if found.text_times:
        notes.append(f"{found.text_times:,} events give their times as text; they were read.")
    if nested.crossing:
        notes.append(f"{nested.crossing:,} events overlap another on the same thread without lying in it.")
    if found.twin_reason:
        notes.append(f"Read without native code, which is slower: {found.twin_reason}.")
    return ImportReport(found.dialect.format, output, 1, source.size, read, tuple(skipped), tuple(notes))


def _capabilities(found: Collected, made: Made, tally: Tally, tree: FrameTree) -> dict[str, Any]:
    torch = found.dialect.format == "torch.profiler"
    absent = f"{found.dialect.title} does not tell"
    kinds = {KINDS[k] for k, n in enumerate(tally.by_kind) if n}
    answer = {name: capability(False, absent) for name in CAPABILITIES}

    def seen(name: str, observed: bool, limit: str = "", otherwise: str = "none in the file") -> None:
        answer[name] = capability(observed, limit if observed else otherwise)

    definition = "the line of a function's definition, not of the call in it: the profiler keeps no other"
    seen("stacks", tally.stacks,
         definition if tree.from_python_events else "", "the run was profiled without with_stack=True")  # fmt: skip
    seen("shapes", tally.shapes, "", "the run was profiled without record_shapes=True")
    seen("modules", tally.modules, "names that the profiler gave to modules, without the path of attributes",
         "the run was profiled without with_modules=True")  # fmt: skip
    seen("backward_lines", tally.stacks and tally.joined > 0, definition if tree.from_python_events else "",
         "no stacks, or no sequence numbers")  # fmt: skip
    seen("device_time", made.devices > 0, "", "no work of a device in the file")
    for name, kind in (("gc", "gc"), ("data_wait", "data_wait"), ("sync", "sync"), ("memory", "memory"),
                       ("collectives", "collective")):  # fmt: skip
        seen(name, kind in kinds)
    seen("steps", len(made.steps.number) > 0, "", "no step() of the profiler and no optimizer in the file")
    if torch and "autograd" in kinds:
        seen("recompute", tally.stacks, "",
             "without with_stack=True only checkpoint(use_reentrant=True) can be told from backward")  # fmt: skip
    if not torch:
        limit = "one frame, named by the event: the line of the function's definition"
        answer["stacks"] = capability(tally.stacks, limit if tally.stacks else absent)
        answer |= {name: capability(False, absent) for name in ("shapes", "modules", "backward_lines")}
    return answer


def _absolute(tree: FrameTree) -> bool:
    return any(name.startswith("/") for name in tree._name)


def _unix(start: int, facts: Facts) -> int:
    if facts.base_ns is not None:
        value = facts.base_ns + start
        return value if 0 <= value < 1 << 62 else 0
    # Old files count microseconds since 1970; others since some boot.
    return start if 1_400_000_000 * 10**9 < start < 4_000_000_000 * 10**9 else 0


def _small(value: Any, otherwise: int) -> int:
    return value if type(value) is int and 0 <= value < 1 << 24 else otherwise
