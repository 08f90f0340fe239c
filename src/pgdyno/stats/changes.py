"""Change points: the positions at which a series changes its level."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pgdyno._engine import student_t_cdf
from pgdyno.stats.steady import winsorized

P_MAX = 0.001
SEGMENT_MIN = 5
"""Minimum number of values that make a level."""


def change_points(
    series: Sequence[float] | NDArray[np.float64],
    *,
    p_max: float = P_MAX,
    segment_min: int = SEGMENT_MIN,
) -> list[int]:
    """Return the indices at which a new level begins, in order.

    Bisection by the largest t statistic, as Hunter does in place of E-divisive so that the answer
    is the same each time (M. Fleming et al., "Hunter: using change point detection to hunt for
    performance regressions", ICPE 2023), with three differences: outliers are winsorized, the
    statistic is discounted for autocorrelation, and its p-value is multiplied by the number of
    positions tried (Bonferroni). Points that are not significant between their neighbours are
    dropped.
    """
    values = np.asarray(series, dtype=float)
    share = _independent_share(values)
    found = _bisect(values, 0, len(values), (p_max, segment_min, share))
    while found:
        edges = [0, *found, len(values)]
        p_values = [
            _p_value(winsorized(values[before:after]), point - before, share)
            for before, point, after in zip(edges, found, edges[2:], strict=False)
        ]
        weakest = max(range(len(found)), key=lambda index: p_values[index])
        if p_values[weakest] <= p_max:
            break
        del found[weakest]
    return found


def _bisect(
    values: NDArray[np.float64], start: int, end: int, rule: tuple[float, int, float]
) -> list[int]:
    p_max, segment_min, share = rule
    if end - start < 2 * segment_min:
        return []
    segment = winsorized(values[start:end])
    sizes = np.arange(segment_min, len(segment) - segment_min + 1)
    position = int(sizes[np.argmax(_t_statistics(segment, sizes))])
    if len(sizes) * _p_value(segment, position, share) > p_max:
        return []
    point = start + position
    return [*_bisect(values, start, point, rule), point, *_bisect(values, point, end, rule)]


def _independent_share(values: NDArray[np.float64]) -> float:
    """Return the independent values per value, (1 - φ) / (1 + φ) for AR(1) noise.

    φ comes from differences over one and two steps, whose variances are 2σ²(1 - φ) and
    2σ²(1 - φ²): unlike the autocorrelation they depend little on changes of level.
    """
    if len(values) < 4:
        return 1.0
    one, two = (np.mean(winsorized(values[lag:] - values[:-lag]) ** 2) for lag in (1, 2))
    phi = min(max(float(two / one) - 1, 0.0), 0.95) if one > 0 else 0.0
    return (1 - phi) / (1 + phi)


def _t_statistics(segment: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return |t| of the two-sample test with pooled variance, for each size of the left part."""
    size = len(segment)
    centred = segment - segment.mean()
    sums = np.cumsum(centred)[sizes - 1]
    # The means of both parts follow from one sum, since the centred values add up to zero.
    between = sums**2 * size / (sizes * (size - sizes))
    within = np.maximum(float(centred @ centred) - between, 0.0)
    tiny = 1e-18 * max(float(segment @ segment), 1e-300)
    result: NDArray[np.float64] = np.sqrt(between * (size - 2) / np.maximum(within, tiny))
    return np.where(between <= tiny, 0.0, result)


def _p_value(segment: NDArray[np.float64], position: int, share: float) -> float:
    """Return the two-sided p-value of a change of level at ``position``; ``share`` of the values
    are independent."""
    statistic = float(_t_statistics(segment, np.array([position]))[0])
    freedom = max(share * len(segment) - 2, 1.0)
    return 2 * student_t_cdf(freedom, -statistic * math.sqrt(share))
