"""Can this gate fail? One regression of each kind, put into the counts of a given trace, must be seen.

A gate that cannot fail is worse than none. The counts are changed as such a regression would change
them (an operator more, a dtype changed, most of the capture lost), each alone, and the check must
block on exactly that change, and on nothing when nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from neuron_explorer.check.baseline import baseline_of, baseline_text, parse_baseline
from neuron_explorer.check.config import Config
from neuron_explorer.check.counts import Count, Counted, Counts, Key
from neuron_explorer.check.result import FAILED, OK, check

Inject = Callable[[Counts], Counts | None]


@dataclass(frozen=True)
class Injected:
    """One kind. ``seen``: None where the trace has nothing to change."""

    name: str
    seen: bool | None
    said: str = ""


def _with(counts: Counts, group: str, changed: Mapping[Key, Count]) -> Counts:
    known = counts.groups[group]
    found = Counted(known.group, dict(sorted(changed.items())), True, "", known.places)
    return replace(counts, groups={**counts.groups, group: found})


def _firm_key(counts: Counts, group: str) -> Key | None:
    """A key that does not vary, the largest."""
    known = counts.groups[group]
    steady = [(count.high, key) for key, count in known.counts.items() if count.steady and count.high]
    return max(steady)[1] if known.observed and steady else None


def _one_more(group: str) -> Inject:
    def inject(counts: Counts) -> Counts | None:
        key = _firm_key(counts, group)
        if key is None:
            return None
        was = counts.groups[group].counts[key]
        return _with(counts, group, {**counts.groups[group].counts, key: Count(was.low + 1, was.high + 1)})

    return inject


def _new(group: str) -> Inject:
    def inject(counts: Counts) -> Counts | None:
        known = counts.groups[group]
        if not known.observed:
            return None
        key = tuple(f"self-test {name}" for name in known.group.fields)
        return _with(counts, group, {**known.counts, key: Count(1, 1)})

    return inject


def _renamed(position: int, to: str) -> Inject:
    def inject(counts: Counts) -> Counts | None:
        key = _firm_key(counts, "operators")
        if key is None:
            return None
        kept = dict(counts.groups["operators"].counts)
        kept[(*key[:position], to, *key[position + 1 :])] = kept.pop(key)
        return _with(counts, "operators", kept)

    return inject


def _lost(counts: Counts) -> Counts | None:
    key = _firm_key(counts, "launches")
    if key is None or counts.groups["launches"].counts[key].high < 4:
        return None
    few = counts.groups["launches"].counts[key].high // 10
    return _with(counts, "launches", {key: Count(few, few)})


_KINDS: Final[tuple[tuple[str, Inject], ...]] = (
    ("one more operator in a step", _one_more("lines")),
    ("one more launch in a step", _one_more("launches")),
    ("another dtype", _renamed(1, '["self-test"]')),
    ("another shape", _renamed(2, "[[1,2,3]]")),
    ("a renamed operator", _renamed(0, "aten::self_test")),
    ("a recompilation", _new("recompiles")),
    ("a graph break", _new("graph_breaks")),
    ("a fallback to the CPU", _new("fallbacks")),
    ("a copy between devices", _new("copies")),
    ("a wait for the device", _new("synchronisations")),
    ("a collective", _new("collectives")),
    ("a lost capture", _lost),
)


def self_test(counts: Counts) -> tuple[Injected, ...]:
    """Put each kind of regression into the counts of a trace and check them against what they were."""
    baseline = parse_baseline(baseline_text(baseline_of([counts])), "the self-test's baseline")
    config = Config()
    clean = check(counts, baseline, config)
    found = [Injected("nothing changed", clean.exit_code == OK, "the check must pass")]
    for name, inject in _KINDS:
        changed = inject(counts)
        if changed is None:
            found.append(Injected(name, None, "this trace has nothing of the kind"))
            continue
        result = check(changed, baseline, config)
        found.append(Injected(name, result.exit_code == FAILED, "the check must fail"))
    return tuple(found)


