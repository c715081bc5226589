"""Alerts for compilations that failed, and for those that never ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from neuron_explorer.analysis import alert_thresholds as limits
from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.alert import Alert, Occurrence
from neuron_explorer.analysis.alerts_recompile import dynamic_allowed, short_place
from neuron_explorer.analysis.compile_advice import break_advice
from neuron_explorer.analysis.compile_events import CompileEvents, Row, shown_function
from neuron_explorer.analysis.plain import plain

_INTERRUPTS: Final = ("KeyboardInterrupt", "SystemExit")


def failure_alerts(events: CompileEvents) -> list[Alert]:
    """Compilations that failed, and those that never ended."""
    groups: dict[tuple[str, str, int, str, str], list[Row]] = {}
    for row in events.compiles:
        outcome = row.text("outcome")
        if outcome not in ("failed", "unended"):
            continue
        kind = "compile_failed" if outcome == "failed" else "compile_unended"
        groups.setdefault((kind, row.file, row.line, row.function or row.name, _failure(row)["type"]), []).append(row)
    found = []
    for (kind, file, line, function, type_), rows in groups.items():
        last = rows[-1]
        failure = _failure(last)
        cost = sum(r.cost for r in rows)
        share = events.share(cost)
        caller_file, caller_line, caller_function = last.caller()
        name = shown_function(function) or "a graph"
        if kind == "compile_failed":
            title = f"Compiling {name} failed" + (f" {len(rows):,} times" if len(rows) > 1 else "")
            title += f" with {plain(type_, 60)}" if type_ else ""
            if type_ in _INTERRUPTS:
                title = f"Compiling {name} was interrupted ({type_})"
            said = plain(_said(failure["reason"]), 300)
            evidence = f"{said.rstrip('.')}. " if said else ""
            evidence += f"{q.duration(cost)} went into it."
            help_ = _failure_advice(failure, last, events)
        else:
            title = f"Compiling {name} had not ended when the recording did"
            evidence = f"It began {q.duration(last.start)} into the recording."
            help_ = (
                "The program ended, or was killed, while it compiled. On a device compilations can take many minutes; "
                "look at the memory and the time that the job was given."
            )
        if failure["file"]:
            evidence += f" At {short_place(failure['file'], failure['line'])}."
        found.append(
            Alert(
                kind,
                _severity(kind, failure, share),
                title,
                evidence,
                help_,
                file,
                line,
                function,
                cause=type_,
                guard=failure["reason"],
                caller_file=caller_file,
                caller_line=caller_line,
                caller_function=caller_function,
                cost_ns=cost,
                share=share,
                count=len(rows),
                nth=last.number("nth"),
                limit=last.number("limit"),
                period=last.period,
                backend=last.text("backend"),
                process=last.process,
                library=last.library,
                rank=last.rank,
                events=tuple(r.id for r in rows[: limits.MOST_OCCURRENCES]),
                occurrences=tuple(
                    Occurrence(r.id, r.start, r.cost, r.compile_id, nth=r.number("nth"), step=r.step, period=r.period)
                    for r in rows[: limits.MOST_OCCURRENCES]
                ),
                more=max(len(rows) - limits.MOST_OCCURRENCES, 0),
            )
        )
    return found


def _severity(kind: str, failure: Mapping[str, Any], share: float) -> str:
    if failure["type"] == "Unsupported" and failure["reason"].lower().startswith("observed exception"):
        return "low"  # the program raises, as it would without a compiler
    return "medium" if kind == "compile_failed" and share < limits.HIGH_SHARE else "high"


def _failure(row: Row) -> dict[str, Any]:
    value = row.detail.get("failure")
    value = value if isinstance(value, Mapping) else {}
    line = value.get("line")
    return {
        "type": str(value.get("type") or ""),
        "reason": str(value.get("reason") or ""),
        "file": value["file"] if isinstance(value.get("file"), str) else "",
        "line": line if isinstance(line, int) and not isinstance(line, bool) else -1,
    }


def _said(reason: str) -> str:
    """What the backend or Dynamo said, without torch's frame around it."""
    text = re.split(r"\n+\s*(?:Set TORCHDYNAMO|Hint:|Developer debug context:)", reason)[0]
    text = re.sub(r"\n\s*Explanation: ", ". ", text)
    text = re.sub(r"^backend='[^'\n]*' raised:\s*", "", text.strip())
    return " ".join(text.split())


def _failure_advice(failure: Mapping[str, Any], row: Row, events: CompileEvents) -> str:
    text = failure["reason"].lower()
    if failure["type"] in _INTERRUPTS:
        return (
            "The program was stopped while it compiled. On a device compilations can take many minutes: the phases on "
            "the timeline show what it was at."
        )
    where = short_place(failure["file"], failure["line"])
    if failure["type"] == "Unsupported" and text.startswith("observed exception"):
        at = f" at {where}" if where else ""
        return (
            f"The function raises{at}, which Dynamo does not compile: it runs eagerly then, and the exception is the "
            "same. Check what it is given before the call, so that compiled code need not raise."
        )
    if failure["type"] == "Unsupported":
        return "fullgraph=True allows no graph break. " + break_advice(failure["reason"], "", "", where, [])
    if failure["type"] == "RecompileError":
        return (
            "torch._dynamo.config.error_on_recompile is set, so compiling again is an error: the alert for the "
            "recompilation says what changed and what to do."
        )
    if failure["type"] == "TorchRuntimeError" or "fake tensor" in text.split("\n")[0]:
        at = f" at {where}" if where else ""
        return (
            f"The operator{at} refuses its arguments already while it is traced: run the function without "
            "torch.compile first, which most likely fails in the same line with a shorter message."
        )
    if "dynamic" in text or "symbolic" in text or "symint" in text:
        if not dynamic_allowed(events, row.text("backend")):
            return "Give torch.compile dynamic=False and pad inputs to a few sizes: this backend compiles fixed shapes."
        return "Try torch.compile(dynamic=False), or pad inputs to a fixed size."
    if "out of memory" in text:
        return "Compile a smaller part of the model at a time, or lower the batch size."
    return 'Try backend="eager", then "aot_eager", to see which part fails; the whole message is in the details.'
