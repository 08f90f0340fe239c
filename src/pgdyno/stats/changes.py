"""Change points: the positions at which a series changes its level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdyno._engine import student_t_cdf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P_MAX = 0.001
SEGMENT_MIN = 5
"""Minimum number of values that make a level."""
LEVEL_ROUNDS = 2
"""Rounds in which a series and its parts are split in two before its dependence is estimated: four
levels, which the changes to be found seldom exceed."""
LEVEL_ROUNDS_FROM = 40
"""Length of a series from which on four levels leave enough values for the dependence."""
PHI_MAX = 0.95
OUTLIER_SDS = 5.0
"""Values farther from the median than this many robust deviations are moved to that distance."""
CAUTION = 2.0
"""Standard errors that are added to the dependence, which short series show too little of by
chance. Calibrated by simulation: with correlations of up to 0.8, fewer than 2 of 100 steady series
show a change, and about 2 of 100 runs in any of their series."""


def change_points(
    series: Sequence[float] | NDArray[np.float64],
    *,
    p_max: float = P_MAX,
    segment_min: int = SEGMENT_MIN,
    beside: int = 1,
) -> list[int]:
    """Return the indices at which a new level begins, in order, where ``beside`` series in all are
    searched and ``p_max`` is the chance of a change in any of them.

    Bisection by the largest t statistic, as Hunter does in place of E-divisive so that the answer
    is the same each time (M. Fleming et al., "Hunter: using change point detection to hunt for
    performance regressions", ICPE 2023), with three differences: outliers are winsorized, the
    statistic is discounted for autocorrelation, and its p-value is multiplied by the number of
    positions tried (Bonferroni). Points that are not significant between their neighbours are
    dropped.
    """
    import numpy as np

    values = np.asarray(series, dtype=float)
    p_max /= beside
    share = independent_share(values)
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


def winsorized(values: NDArray[np.float64], *, sds: float = OUTLIER_SDS) -> NDArray[np.float64]:
    """Return ``values`` with outliers moved to ``sds`` robust standard deviations (1.4826 MAD)."""
    import numpy as np

    if not len(values):
        return values
    centre = np.median(values)
    deviation = 1.4826 * np.median(np.abs(values - centre))
    if not deviation > 0:
        return values
    reach = sds * deviation
    return np.clip(values, centre - reach, centre + reach)


def _bisect(
    values: NDArray[np.float64], start: int, end: int, rule: tuple[float, int, float]
) -> list[int]:
    import numpy as np

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


def independent_share(values: NDArray[np.float64]) -> float:
    """Return the independent values per value, (1 - φ) / (1 + φ) for AR(1) noise.

    φ is that of the residuals of a few levels, because a change of level looks like dependence.
    Residuals show too little of it, by about (1 + 2 φ) / n for each level (M. G. Kendall, "Note on
    bias in the estimation of autocorrelation", Biometrika 41, 1954), which is added, with
    ``CAUTION``.
    """
    import numpy as np

    if len(values) < 4:
        return 1.0
    levels = _levels(values, LEVEL_ROUNDS if len(values) >= LEVEL_ROUNDS_FROM else 1)
    residuals = winsorized(np.concatenate([part - winsorized(part).mean() for part in levels]))
    size, square = len(values), float(residuals @ residuals)
    phi = float(residuals[1:] @ residuals[:-1]) / square if square > 0 else 0.0
    phi += len(levels) * (1 + 2 * max(phi, 0.0)) / size
    error = math.sqrt(max(1 - phi**2, 0.0) / size)
    phi += CAUTION * error
    phi = min(max(phi, 0.0), PHI_MAX)
    return (1 - phi) / (1 + phi)


def _levels(values: NDArray[np.float64], rounds: int) -> list[NDArray[np.float64]]:
    """Return the values split where they differ most, and the parts again, significant or not."""
    import numpy as np

    sizes = np.arange(SEGMENT_MIN, len(values) - SEGMENT_MIN + 1)
    if not rounds or not len(sizes):
        return [values]
    point = int(sizes[np.argmax(_t_statistics(winsorized(values), sizes))])
    return [*_levels(values[:point], rounds - 1), *_levels(values[point:], rounds - 1)]


def _t_statistics(segment: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return |t| of the two-sample test with pooled variance, for each size of the left part."""
    import numpy as np

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
    are independent.

    The variance of AR(1) noise is known better than its mean: as from n (1 - φ²) / (1 + φ²)
    independent values (M. S. Bartlett, "On the theoretical specification and sampling properties of
    autocorrelated time-series", JRSS Supplement 8, 1946), which is 2 n s / (1 + s²) for a share s.
    """
    import numpy as np

    statistic = float(_t_statistics(segment, np.array([position]))[0])
    freedom = max(2 * share / (1 + share**2) * len(segment) - 2, 1.0)
    return 2 * student_t_cdf(freedom, -statistic * math.sqrt(share))
