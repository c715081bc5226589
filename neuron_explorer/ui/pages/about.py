"""About this trace: what it is, what it could see, what it lost, what it discloses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dash import html

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.facts import LOSS_COUNTS, RunFacts, run_facts
from neuron_explorer.analysis.plain import plain
from neuron_explorer.analysis.selection import lanes
from neuron_explorer.trace.schema import ATTRIBUTIONS, KINDS
from neuron_explorer.ui.cache import cached
from neuron_explorer.ui.components.card import card, note
from neuron_explorer.ui.components.exports import file_name
from neuron_explorer.ui.components.plain_table import plain_table
from neuron_explorer.ui.page import Page, Search

if TYPE_CHECKING:
    from neuron_explorer.trace.store import Trace


@dataclass(frozen=True)
class AboutData:
    """What the page shows: (name, value) pairs and the facts behind them."""

    facts: RunFacts
    run: tuple[tuple[str, str], ...]
    recording: tuple[tuple[str, str], ...]
    lanes: tuple[dict[str, Any], ...]
    discloses: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]


def data(trace: Trace, search: Search) -> AboutData:
    """The page's data."""
    facts = cached(trace, run_facts)
    meta = trace.metadata
    world = f"{facts.rank} of {facts.world_size}" if facts.world_size > 1 else ""
    run = [
        ("file", facts.name),
        ("size", f"{facts.file_bytes / max(facts.events, 1):,.1f} B an event, {facts.file_bytes:,} B"
         if facts.file_bytes >= 0 else ""),
        ("script", facts.script),
        ("started", facts.start),
        ("recorded", q.duration(facts.duration_ns)),
        ("device", facts.device + (" (emulated)" if facts.emulated else "")),
        ("rank", world),
        *((f"{name} version", version) for name, version in facts.versions.items()),
    ]  # fmt: skip
    recording = [
        ("recorder", facts.recorder + (f": {facts.recorder_reason}" if facts.recorder_reason else "")),
        ("state", _state(facts)),
        ("kind of time", facts.time.text),
        ("steps", _steps(meta)),
        ("operator time with a source line", q.share(facts.op_time_with_line)),
        *((name, text) for name, text in _overhead(meta)),
        *((LOSS_COUNTS[key], q.count(n)) for key, n in facts.losses.items()),
    ]
    if not facts.losses:
        recording.append(("lost or set aside", "nothing"))
    if facts.tracing_ops:
        recording.append(
            ("operators dispatched while compiling", f"{q.count(facts.tracing_ops)}, counted but not kept")
        )
    return AboutData(
        facts,
        tuple((k, v) for k, v in run if v),
        tuple((k, v) for k, v in recording if v),
        tuple(lanes(meta)[:500]),
        _discloses(meta),
        _pairs(meta.get("settings")),
    )


def _state(facts: RunFacts) -> str:
    if facts.recovered:
        return "recovered from the spool of a program that ended early"
    return "complete" if facts.finished else "cut off: the program ended before the recording was stopped"


def _steps(meta: dict[str, Any]) -> str:
    steps = meta.get("steps")
    if not isinstance(steps, dict) or steps.get("rule") in (None, "none"):
        return "not observed"
    text = f"{steps.get('count', 0)} {steps.get('rule_text') or ''}, {steps.get('steady', 0)} steady"
    return text + (f"; {steps['note']}" if steps.get("note") else "")


def _overhead(meta: dict[str, Any]) -> list[tuple[str, str]]:
    overhead = meta.get("overhead")
    if not isinstance(overhead, dict):
        return []
    result = []
    for key, value in overhead.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            text = q.duration(value) if "ns" in str(key) else f"{value:g}"
            name = str(key).replace("_ns", "").replace("_", " ")
            result.append((f"overhead: {name}", text))
    return result


def _discloses(meta: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    discloses = meta.get("discloses")
    if not isinstance(discloses, dict):
        return (("discloses", "not stated"),)
    words = {True: "yes", False: "no"}
    return tuple(
        (str(key).replace("_", " "), words.get(value, str(value)) if isinstance(value, bool) else str(value))
        for key, value in discloses.items()
    )


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    return tuple((str(k), str(v)) for k, v in list(value.items())[:100])


def layout(trace_id: str, trace: Trace, search: Search) -> Any:
    """Draw it."""
    d = data(trace, search)
    kinds = [(KINDS.get(kind, "").replace("`", ""), kind, n) for kind, n in d.facts.by_kind.items()]
    return html.Div(
        [
            html.H1("About this trace", className="visually-hidden"),
            html.Div(
                [
                    card("The run", _definitions(d.run)),
                    card("The recording", _definitions(d.recording)),
                ],
                className="columns",
            ),
            html.Div(
                [
                    card(
                        "What could be seen",
                        _table(
                            ("what", "state", "limits, or why not"),
                            [
                                (c.name, "observed" if c.observed else "not observed", plain(c.reason, 300))
                                for c in d.facts.capabilities
                            ],
                        ),
                        note("Not observed means that the recording could not look, not that there was none."),
                        extra="seen-card",
                    ),
                    html.Div(
                        [
                            card(
                                "Events by kind",
                                _table(("kind", "events", "what it is"), [(k, q.count(n), m) for m, k, n in kinds],
                                       numeric=(1,)),
                            ),
                            *_attribution(d.facts),
                        ],
                        className="column",
                    ),
                ],
                className="columns",
            ),
            html.Div(
                [
                    card(
                        "Lanes",
                        _table(
                            ("lane", "kind", "name", "process"),
                            [
                                (str(x["lane"]), plain(str(x.get("kind", ""))), plain(str(x.get("name", ""))),
                                 f"{x.get('process', '')} {plain(str(x.get('process_name') or ''))}")
                                for x in d.lanes
                            ],
                            numeric=(0,),
                        ),
                    ),
                    html.Div(
                        [
                            card(
                                "What this file discloses",
                                _definitions(d.discloses),
                                note("neuron-explorer redact removes source, paths and arguments."),
                            ),
                            *([card("Settings", _definitions(d.settings))] if d.settings else []),
                        ],
                        className="column",
                    ),
                ],
                className="columns",
            ),
        ],
        className="page",
    )  # fmt: skip


def _attribution(facts: RunFacts) -> list[Any]:
    if not facts.attribution:
        return []
    rows = [
        (name, q.count(values.get("events")), q.duration(values.get("self_ns")), ATTRIBUTIONS.get(name, ""))
        for name, values in sorted(facts.attribution.items(), key=lambda item: -item[1].get("self_ns", 0))
    ]
    return [card("How lines were found", _table(("how", "events", "self", "meaning"), rows, numeric=(1, 2)))]


def _definitions(pairs: tuple[tuple[str, str], ...]) -> html.Dl:
    return html.Dl(
        [item for key, value in pairs for item in (html.Dt(plain(key)), html.Dd(plain(value, 400)))],
        className="definitions",
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], numeric: tuple[int, ...] = ()) -> html.Div:
    heads = [(text, "num" if index in numeric else "") for index, text in enumerate(head)]
    return plain_table(heads, rows, file_name("about", head[0]))


PAGE = Page(path="/about", name="About this trace", section="Data", layout=layout, data=data)
