"""``neuron-explorer info``: what a trace is, from its metadata alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from neuron_explorer.analysis.facts import RunFacts

_LABEL_WIDTH = 14


def info(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print the trace's metadata as JSON.")] = False,
) -> None:
    """Say what a trace holds, what it could not observe and what it discloses."""
    from neuron_explorer.analysis.facts import run_facts
    from neuron_explorer.analysis.plain import plain
    from neuron_explorer.cli.opened import load

    with load(trace) as opened:
        if as_json:
            import json

            print(json.dumps(opened.metadata, indent=2))
            return
        facts, metadata = run_facts(opened), opened.metadata
    for label, text in _rows(facts, metadata):
        print(f"{label:<{_LABEL_WIDTH}}{plain(text)}".rstrip())


def _rows(facts: RunFacts, metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and text of every line; an empty label continues the line above."""
    from neuron_explorer.analysis.quantity import count, duration, share

    version = metadata.get("schema_version")
    yield "trace", f"{facts.name}, {_size(facts.file_bytes)}, schema version {version}"
    yield "program", facts.script or "unknown"
    yield "started", facts.start or "unknown"
    yield "recorded", duration(facts.duration_ns) + _ending(facts)
    yield "device", facts.device
    versions = [f"{name} {number}" for name, number in facts.versions.items() if number]
    yield "versions", ", ".join(versions) or "unknown"
    reason = f" ({facts.recorder_reason})" if facts.recorder_reason else ""
    yield "recorder", f"{facts.recorder or 'unknown'}{reason}"
    if facts.world_size > 1:
        yield "rank", f"{facts.rank} of {facts.world_size}"
    yield "processes", f"{count(facts.processes)}, threads {count(facts.threads)}"
    yield "events", count(facts.events)
    for kind, number in facts.by_kind.items():
        yield "", f"{number:>12,}  {kind}"
    if facts.tracing_ops:
        yield "", f"{facts.tracing_ops:>12,}  operators that a compiler traced (counted, not written)"
    yield "steps", _steps(_mapping(metadata.get("steps")))
    if facts.op_time_with_line is not None:
        yield "lines", f"{share(facts.op_time_with_line)} of operator time has a source line"
    yield from _list("losses", _losses(facts), "none")
    yield from _list("not observed", _not_observed(facts), "nothing")
    yield from _list("discloses", _disclosures(_mapping(metadata.get("discloses"))), "nothing")


def _size(number: int) -> str:
    """Bytes as people read them."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


def _ending(facts: RunFacts) -> str:
    if facts.recovered:
        return ", recovered from an interrupted recording"
    return "" if facts.finished else ", not finished"


def _steps(steps: Mapping[str, Any]) -> str:
    number = steps.get("count")
    rule = str(steps.get("rule_text") or "")
    if not isinstance(number, int) or number <= 0:
        return "not observed"
    note = steps.get("note")
    return f"{number:,} {rule}, {steps.get('steady')} steady" + (f" ({note})" if note else "")


def _losses(facts: RunFacts) -> list[str]:
    from neuron_explorer.analysis.facts import LOSS_COUNTS

    return [f"{number:,} {LOSS_COUNTS[key]}" for key, number in facts.losses.items()]


def _not_observed(facts: RunFacts) -> list[str]:
    """What could not be seen, gathered by the reason why."""
    names: dict[str, list[str]] = {}
    for capability in facts.not_observed:
        names.setdefault(capability.reason, []).append(capability.name)
    return [f"{', '.join(who)}: {why or 'no reason given'}" for why, who in names.items()]


def _disclosures(discloses: Mapping[str, Any]) -> list[str]:
    source = {
        "all": "source text of the files that ran",
        "lines": "source text of the lines that ran",
    }.get(str(discloses.get("source")))
    found = [source] if source else []
    paths = discloses.get("paths")
    if paths in ("relative", "absolute"):
        found.append(f"{paths} file names")
    words = {
        "arguments": "small argument values of operators",
        "compilations": "guards and reasons of compilations, which may quote values and source lines",
        "host": "the host name",
        "script_arguments": "the program's arguments",
    }
    return found + [text for key, text in words.items() if discloses.get(key) is True]


def _list(label: str, lines: list[str], nothing: str) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(lines or [nothing]):
        yield (label if index == 0 else ""), line


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
