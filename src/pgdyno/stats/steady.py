"""End of the warm-up of a run, and the mean of an autocorrelated series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgdyno._engine import student_t_quantile

POINTS_MIN = 16
"""Minimum number of values that can show both a warm-up and a steady part."""

DRIFT_MATTERS = 0.10
"""A level that drifts by less is steady enough for measurements in pairs."""

BLOCKS = 4
BLOCK_ERRORS = 5.0
"""Block means of independent values usually span two standard errors, rarely five."""

OUTLIER_SDS = 5.0
"""Values farther from the median than this many robust deviations are moved to that distance."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval; ``lo`` and ``hi`` are NaN for a single value."""

    mean: float
    lo: float
    hi: float


def steady_from(series: Sequence[float] | NDArray[np.float64]) -> int | None:
    """Return the index from which an equally spaced series is steady; None if it never is.

    The start is cut off at the index with the smallest standard error of the rest (MSER: K. P.
    White, "An effective truncation heuristic for bias reduction in simulation output", Simulation
    69, 1997), within 5 %, and at most in the middle. The rest is steady if the means of its four
    quarters agree within 10 % of the level, or within the difference expected of independent
    values. A warm-up may never end (Barrett et al., "Virtual machine warmup blows hot and cold",
    OOPSLA 2017). Fewer than 16 values: None.
    """
    values = winsorized(np.asarray(series, dtype=float))
    size = len(values)
    if size < POINTS_MIN or not np.isfinite(values).all():
        return None
    starts = np.arange(size // 2 + 1)
    left = size - starts
    sums = np.cumsum(values[::-1])[::-1][starts]
    squares = np.cumsum((values - values.mean())[::-1] ** 2)[::-1][starts]
    spread = np.maximum(squares - left * (sums / left - values.mean()) ** 2, 0.0)
    score = spread / left**2
    start = int(np.argmax(score <= 1.05 * score.min() + 1e-300))
    return start if _level(values[start:]) else None


def mean_with_interval(series: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """Return the mean of a stationary series with a t interval for its effective sample size.

    ValueError for an empty series.
    """
    values = np.asarray(series, dtype=float)
    if not len(values):
        raise ValueError("a mean needs at least one value")
    mean, size = float(values.mean()), effective_size(values)
    if len(values) < 2:
        return Estimate(mean, math.nan, math.nan)
    error = float(values.std(ddof=1)) / math.sqrt(size)
    half = student_t_quantile(max(size - 1, 1.0), 0.975) * error
    return Estimate(mean, mean - half, mean + half)


def effective_size(series: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the equivalent number of independent values: n over the integrated
    autocorrelation time, cut off by the initial positive sequence of C. J. Geyer, "Practical
    Markov chain Monte Carlo", Statistical Science 7, 1992. Between 1 and n.
    """
    values = np.asarray(series, dtype=float)
    size = len(values)
    centred = values - values.mean() if size else values
    power = float(centred @ centred)
    if size < 4 or power <= 1e-24 * size * float(np.max(np.abs(values))) ** 2:
        return float(size)
    spectrum = np.fft.rfft(centred, 2 * size)
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[:size] / power
    sums = correlation[: size // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(sums <= 0)
    kept = sums[: negative[0]] if len(negative) else sums
    time = 2 * float(kept.sum()) - 1
    return float(min(max(size / max(time, 1.0), 1.0), size))


def winsorized(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` with outliers moved to five robust standard deviations (1.4826 MAD)."""
    if not len(values):
        return values
    centre = np.median(values)
    deviation = 1.4826 * np.median(np.abs(values - centre))
    if not deviation > 0:
        return values
    reach = OUTLIER_SDS * deviation
    return np.clip(values, centre - reach, centre + reach)


def _level(values: NDArray[np.float64]) -> bool:
    blocks = np.array_split(values, BLOCKS)
    means = np.array([block.mean() for block in blocks])
    apart = float(np.ptp(means))
    if apart <= DRIFT_MATTERS * abs(float(np.median(values))):
        return True
    within = math.sqrt(float(np.mean([block.var(ddof=1) for block in blocks])))
    return apart <= BLOCK_ERRORS * within / math.sqrt(len(values) / BLOCKS)
