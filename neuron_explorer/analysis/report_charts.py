"""The report's charts: vector graphics without script, coloured by the report's style sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from neuron_explorer.analysis import quantity as q
from neuron_explorer.analysis.html_text import Markup, element, join

MOST_BARS: Final = 400
"""Above this, one bar is the slowest of several steps."""
CUT: Final = 3
"""Bars above so many times the longest steady step are cut at the top."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 1180, 190, 52, 24, 14
_PERIODS: Final = (("steady", "steady"), ("warmup", "warm-up"), ("compile", "holds a compile"))


def bars(parts: Sequence[Mapping[str, Any]]) -> Markup:
    """One bar, divided into the parts of the breakdown by their shares."""
    at, drawn = 0.0, []
    for part in parts:
        width = max(0.0, min(100.0 - at, 100 * part["share"]))
        said = f"{part['label']}: {q.share(part['share'])}"
        drawn.append(
            element("rect", element("title", said), x=f"{10 * at:.2f}", y="0", width=f"{10 * width:.2f}", height="22",
                    class_=part["key"])
        )  # fmt: skip
        at += width
    label = ", ".join(f"{p['label']} {q.share(p['share'])}" for p in parts if p["share"] > 0)
    return element("svg", join(drawn), role="img", aria_label=label, class_="stack",
                   viewBox="0 0 1000 22", preserveAspectRatio="none")  # fmt: skip


def swatch(key: str) -> Markup:
    """A part's colour."""
    square = element("rect", width="10", height="10", class_=key)
    return element("svg", square, class_="swatch", viewBox="0 0 10 10", aria_hidden="true")


def steps(durations: Sequence[int], periods: Sequence[str], median_ns: float | None) -> tuple[Markup, str]:
    """A bar per step, and what was merged or cut, in words. Durations in ns; negative ones have no end."""
    known = [
        (number, ns, kind if kind in ("warmup", "compile") else "steady")
        for number, (ns, kind) in enumerate(zip(durations, periods, strict=True)) if ns >= 0
    ]  # fmt: skip
    if not known:
        return Markup(""), ""
    size = max(1, math.ceil(len(known) / MOST_BARS))
    shown = [max(known[i : i + size], key=lambda bar: bar[1]) for i in range(0, len(known), size)]
    longest = max(ns for _, ns, _ in shown)
    steady = max((ns for _, ns, kind in shown if kind == "steady"), default=longest)
    top = int(steady * 1.3) if longest > CUT * steady > 0 else max(longest, 1)
    unit, name = q.duration_unit(top)
    high, wide = _HEIGHT - _BOTTOM - _TOP, (_WIDTH - _LEFT) / len(shown)
    drawn: list[Markup] = []
    for tick in _ticks(top / unit):
        y = _TOP + high * (1 - tick * unit / top)
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        drawn.append(element("text", f"{tick:g}", x=_LEFT - 6, y=f"{y + 4:.1f}", text_anchor="end"))
    for place, (number, ns, kind) in enumerate(shown):
        tall = high * min(ns, top) / top
        drawn.append(
            element("rect", element("title", f"step {number}: {q.duration(ns)}"), class_=kind,
                    x=f"{_LEFT + place * wide + 0.1 * wide:.2f}", y=f"{_TOP + high - tall:.2f}",
                    width=f"{0.8 * wide:.2f}", height=f"{tall:.2f}")
        )  # fmt: skip
    if median_ns is not None and median_ns <= top:
        y = _TOP + high * (1 - median_ns / top)
        drawn.append(element("line", x1=_LEFT, x2=_WIDTH, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="median"))
    for place in sorted({0, len(shown) // 2, len(shown) - 1}):
        x = _LEFT + (place + 0.5) * wide
        drawn.append(element("text", shown[place][0], x=f"{x:.1f}", y=_HEIGHT - 8, text_anchor="middle"))
    drawn.append(element("text", name, x=0, y=_TOP + 4))
    chart = element("svg", join(drawn), viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img",
                    aria_label=f"Times of {q.plural(len(known), 'step')}")  # fmt: skip
    cut = sum(ns > top for _, ns, _ in shown)
    said = [f"One bar is the slowest of {size} steps." if size > 1 else "",
            f"{q.plural(cut, 'bar')} cut at the top, the longest of {q.duration(longest)}." if cut else ""]  # fmt: skip
    kinds = [(key, label) for key, label in _PERIODS if any(kind == key for _, _, kind in shown)]
    legend = join(join((swatch(key), label, " ")) for key, label in kinds) if len(kinds) > 1 else Markup("")
    return join((chart, element("p", legend, class_="note") if legend else "")), " ".join(s for s in said if s)


def _ticks(top: float) -> list[float]:
    """Two to five round values up to ``top``."""
    rough = top / 4
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough)
    return [step * i for i in range(int(top / step + 1e-9) + 1)]
