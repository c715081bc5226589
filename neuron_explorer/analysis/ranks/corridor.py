"""All lines that keep below some points and above others, when their slope is bounded.

The offset between two clocks that run evenly is such a line over time. The lines are a convex polygon in
the plane of their values at two times, so the least and the greatest value at any time are found
among its corners: bounds that no possible line breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

_CHUNKS: Final = 128
_EXACT: Final = 1e-6
"""ns within which a bound is kept: times are whole ns."""


@dataclass(frozen=True)
class Corridor:
    """``corners``: extreme lines, as values at ``low`` and ``high`` (float64, corners × 2)."""

    low: float
    high: float
    corners: np.ndarray

    def bounds(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest value of any of the lines at each time."""
        part = (np.asarray(at, np.float64) - self.low) / (self.high - self.low)
        values = self.corners[:, :1] * (1 - part) + self.corners[:, 1:] * part
        return values.min(axis=0), values.max(axis=0)


def corridor(
    below: tuple[np.ndarray, np.ndarray], above: tuple[np.ndarray, np.ndarray], most_slope: float
) -> Corridor | None:
    """The lines with value ≤ y at each (x, y) of ``below`` and ≥ y at each of ``above``, slope within ± ``most_slope``.

    None where there is no such line. Raises ValueError without a point on either side: then nothing bounds it.
    """
    (under_x, under_y), (over_x, over_y) = (tuple(np.asarray(v, np.float64) for v in side) for side in (below, above))
    if not len(under_x) or not len(over_x):
        raise ValueError("nothing bounds the line on one side")
    low = float(min(under_x.min(), over_x.min()))
    high = float(max(under_x.max(), over_x.max()))
    high = max(high, low + 1e6)
    most = most_slope * (high - low)
    # Half-planes a·u + b·v ≤ c of the values u at low and v at high.
    under, over = (under_x - low) / (high - low), (over_x - low) / (high - low)
    a = np.concatenate([1 - under, over - 1, [-1.0, 1.0]])
    b = np.concatenate([under, -over, [1.0, -1.0]])
    c = np.concatenate([under_y, -over_y, [most, most]])
    top, bottom = float(under_y.min()) + most, float(over_y.max()) - most
    if bottom > top:
        return None
    square = np.array([[bottom, bottom], [top, bottom], [top, top], [bottom, top]])
    corners: np.ndarray | None = square
    if len(a) > 8 * _CHUNKS:
        # The tightest bounds of each stretch leave so little that hardly any of the others is looked at again.
        few = np.concatenate([
            _tightest(under_y), len(under_y) + _tightest(-over_y), [len(a) - 2, len(a) - 1]
        ]).astype(np.int64)  # fmt: skip
        corners = _shrunk(square, a[few], b[few], c[few])
    if corners is not None:
        corners = _shrunk(corners, a, b, c)
    return None if corners is None else Corridor(low, high, corners)


def _tightest(values: np.ndarray) -> np.ndarray:
    """The position of the least value of each stretch of equal length."""
    length = max(1, len(values) // _CHUNKS)
    whole = len(values) // length * length
    found: np.ndarray = values[:whole].reshape(-1, length).argmin(axis=1) + np.arange(0, whole, length)
    return found


def _shrunk(corners: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray | None:
    """The part of a convex polygon where a·u + b·v ≤ c for all; None where nothing is left.

    Each round removes the corners by the bounds that they break most. What no corner breaks is never broken again: the
    polygon only shrinks.
    """
    while len(a):
        broken = np.zeros(len(a), bool)
        worst = {}
        for u, v in corners.tolist():
            beyond = a * u + b * v - c
            broken |= beyond > _EXACT
            at = int(beyond.argmax())
            if beyond[at] > _EXACT:
                worst[at] = (float(a[at]), float(b[at]), float(c[at]))
        if not worst:
            break
        for own_a, own_b, own_c in worst.values():
            corners = _cut(corners, own_a * corners[:, 0] + own_b * corners[:, 1] - own_c)
            if not len(corners):
                return None
        broken[list(worst)] = False
        a, b, c = a[broken], b[broken], c[broken]
    return corners


def _cut(corners: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """The part of a convex polygon where ``beyond``, linear and given at its corners, is not positive."""
    kept: list[np.ndarray] = []
    for at in range(len(corners)):
        here, before = beyond[at], beyond[at - 1]
        if (here > 0) != (before > 0):
            kept.append(corners[at - 1] + (corners[at] - corners[at - 1]) * (before / (before - here)))
        if here <= 0:
            kept.append(corners[at])
    return np.array(kept).reshape(-1, 2)
