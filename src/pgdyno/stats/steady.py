"""Steadiness of a series, with the end of its warm-up, and the mean of an autocorrelated series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno._engine import student_t_quantile
from pgdyno.stats.changes import OUTLIER_SDS, change_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS_MIN = 16
"""Minimum number of values that can show both a warm-up and a steady part."""

DRIFT_MATTERS = 0.10
"""A level that drifts by less is steady enough for measurements in pairs."""

NOISE_MAX = 0.75
"""No noise explains quarters of a series that are farther apart than this part of its level: then
the series is not steady enough to have one."""

CUT_SHARE = 1 / 3
"""A warm-up that is over differs from the rest: a drift of the rest that is more than this part of
the difference goes on with what was cut off."""

BLOCKS = 4
BLOCK_ERRORS = 4.4
TREND_ERRORS = 3.0
"""Standard errors that four block means span, and that a trend has, in one of 100 series of noise
(the studentized range of four, and Student's t of 15)."""

PHI_MAX = 0.5
"""The autocorrelation of neighbours that counts as noise. More of it is a level that moves."""

WAVE_CHANCE = 0.005
"""Chance of a wave in noise, in Fisher's test."""

STOP_SHARE = 0.10
"""Part of the median below which a value is a stop."""
STOP_VALUES_MAX = 0.05
"""Share of single stops, such as those of a checkpoint, that a steady series may have."""
STOP_SDS = 3.0
"""The mean of the other values, in their standard deviations, from which on no noise makes a stop;
of them a value counts at most ``SPIKE`` medians."""
SPIKE = 3.0
STOP_CHANCE = 0.01
"""Chance of a stop of several values among single ones in random order."""

LOCAL = 5
"""Values around one that tell whether it is an outlier: two in a row are, three are a level."""

BATCHES = 4
INTERVAL_POINTS_MIN = 120
"""Batches of a series, and its least length, for an interval of its mean."""


class Estimate(Struct, frozen=True):
    """A mean with its 95 % interval; ``lo`` and ``hi`` are NaN for a series that is too short."""

    mean: float
    lo: float
    hi: float


def steady_from(series: Sequence[float] | NDArray[np.float64]) -> int | None:
    """Return the index from which an equally spaced series is steady; None if it never is.

    The start is cut off at the index with the smallest standard error of the rest (MSER: K. P.
    White, "An effective truncation heuristic for bias reduction in simulation output", Simulation
    69, 1997), within 5 %, and at most in the middle. The rest is steady if all of these hold, else
    the whole is if they hold for it:

    - It does not stop, but for single values, at most one in 20 (a stop: below a tenth of the
      median), or by chance where values are counts of a few each.
    - The means of its quarters agree within 10 %, or within what its noise explains. That noise is
      known from the differences of neighbours (J. von Neumann, "Distribution of the ratio of the
      mean square successive difference to the variance", Annals of Mathematical Statistics 12,
      1941), which a drift does not enlarge; an autocorrelation of up to 0.5 is allowed for, and no
      noise explains more than 75 %. A drift that goes on with what was cut off counts too.
    - No level, as :func:`~pgdyno.stats.changes.change_points` finds them, is 10 % from the next.
    - No wave of 10 % from trough to crest is in it, by the largest ordinate of the periodogram (R.
      A. Fisher, "Tests of significance in harmonic analysis", Proceedings of the Royal Society A
      125, 1929) without an autocorrelation of up to 0.5.

    Outliers of one or two values count in none but the first. A warm-up may never end (Barrett et
    al., "Virtual machine warmup blows hot and cold", OOPSLA 2017). Fewer than 16 values: None.
    """
    size = len(series)
    if size < POINTS_MIN:
        return None
    import numpy as np

    values = np.asarray(series, dtype=float)
    if not np.isfinite(values).all():
        return None
    smooth = _without_outliers(values)
    for start in (_warm_up(smooth), 0):
        if not _stops_too_often(values, start) and _holds(smooth[start:], smooth[:start]):
            return start
    return None


def stops_in(series: Sequence[float] | NDArray[np.float64]) -> int:
    """Return the number of stops in a series, if noise does not explain them; else 0."""
    import numpy as np

    values = np.asarray(series, dtype=float)
    stop = _stops(values)
    return int(stop.sum()) if _stops_stand_out(values, stop) else 0


def _stops(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which values are stops: below a tenth of the median of the positive ones."""
    import numpy as np

    positive = values[values > 0]
    bar = STOP_SHARE * float(np.median(positive)) if len(positive) else 0.0
    return np.asarray(values < bar)


def mean_with_interval(series: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """Return the mean of a stationary series with its interval, from the means of four batches (B.
    Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research 30,
    1982): t(0.975, 3) s / √4.

    Each second depends on those before. The interval covers 94 % up to an autocorrelation of 0.8
    from 120 values on, and 92 % of 60; a shorter series has none. ValueError for an empty series.
    """
    if not len(series):
        raise ValueError("a mean needs at least one value")
    if len(series) < INTERVAL_POINTS_MIN:
        return Estimate(fmean(series), math.nan, math.nan)
    import numpy as np

    values = np.asarray(series, dtype=float)[len(series) % BATCHES :]
    means = values.reshape(BATCHES, -1).mean(axis=1)
    mean, error = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(BATCHES)
    half = student_t_quantile(BATCHES - 1, 0.975) * error
    return Estimate(mean, mean - half, mean + half)


def _warm_up(values: NDArray[np.float64]) -> int:
    """Return the index at which MSER cuts."""
    import numpy as np

    size = len(values)
    starts = np.arange(size // 2 + 1)
    left = size - starts
    sums = np.cumsum(values[::-1])[::-1][starts]
    squares = np.cumsum((values - values.mean())[::-1] ** 2)[::-1][starts]
    spread = np.maximum(squares - left * (sums / left - values.mean()) ** 2, 0.0)
    score = spread / left**2
    return int(np.argmax(score <= 1.05 * score.min() + 1e-300))


def _without_outliers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values``, each at most ``OUTLIER_SDS`` robust standard deviations from the median of
    those around it (F. R. Hampel, "The influence curve and its role in robust estimation", JASA 69,
    1974)."""
    import numpy as np

    padded = np.pad(values, LOCAL // 2, mode="reflect")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, LOCAL), axis=1)
    reach = OUTLIER_SDS * _deviation(values - around)
    return np.clip(values, around - reach, around + reach)


def _deviation(residuals: NDArray[np.float64]) -> float:
    """Return the standard deviation of normal values, from the 90th percentile of their sizes: a
    tenth of them may be outliers, and it is not 0 for counts that are small."""
    import numpy as np

    return float(np.quantile(np.abs(residuals), 0.9, method="lower")) / 1.645


def _stops_too_often(values: NDArray[np.float64], start: int) -> bool:
    """Return whether there are more stops from ``start`` on, or longer ones that reach beyond it,
    than a steady series has.

    Where noise takes values to 0, as counts of a few each, a stop of several is compared with those
    of the same values in random order.
    """
    import numpy as np

    stop = _stops(values)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], stop.astype(int), [0]))))
    longest = max((int(b - a) for a, b in edges.reshape(-1, 2) if b > start), default=0)
    if _stops_stand_out(values, stop):
        most = max(1.0, STOP_VALUES_MAX * (len(values) - start))
        return longest > 1 or int(stop[start:].sum()) > most
    size, count, places = len(values), int(stop.sum()), np.arange(longest)
    expected = (size - longest + 1) * float(np.prod((count - places) / (size - places)))
    return longest > 1 and expected < STOP_CHANCE


def _stops_stand_out(values: NDArray[np.float64], stop: NDArray[np.bool_]) -> bool:
    """Return whether noise does not make stops of the other values, which are at least half."""
    import numpy as np

    others = values[~stop]
    if 2 * len(others) < len(values):
        return False
    others = np.minimum(others, SPIKE * np.median(others))
    return bool(others.mean() >= STOP_SDS * others.std())


def _holds(values: NDArray[np.float64], cut: NDArray[np.float64]) -> bool:
    """Return whether the values, before which others were ``cut``, hold their level."""
    level = float(values.mean())
    return not (_drifts(values, level, cut) or _steps(values, level) or _waves(values, level))


def _drifts(values: NDArray[np.float64], level: float, cut: NDArray[np.float64]) -> bool:
    """Return whether the means of quarters are too far apart, or a straight line through all values
    falls or rises too much: by as much between the middles of the first and the last quarter."""
    import numpy as np

    size = len(values)
    noise = _noise(values) if size >= POINTS_MIN else 0.0
    means = [block.mean() for block in np.array_split(values, BLOCKS)]
    slope = float(np.polyfit(np.arange(size), values, 1)[0])
    for drift, errors in (
        (float(np.ptp(means)), BLOCK_ERRORS * math.sqrt(BLOCKS / size)),
        (0.75 * abs(slope) * size, 0.75 * TREND_ERRORS * math.sqrt(12 / size)),
    ):
        if drift <= min(errors * noise, NOISE_MAX * abs(level)):
            continue
        going_on = len(cut) and drift > CUT_SHARE * abs(float(cut.mean()) - level)
        if going_on or drift > DRIFT_MATTERS * abs(level):
            return True
    return False


def _noise(values: NDArray[np.float64]) -> float:
    """Return the standard deviation of which the mean of n values has a √n-th as its error, for
    AR(1) noise: that of the differences, over √2 (1 - φ), times √(1 + φ)."""
    import numpy as np

    phi = _phi(values)
    return _deviation(np.diff(values)) / math.sqrt(2) * math.sqrt(1 + phi) / (1 - phi)


def _phi(values: NDArray[np.float64]) -> float:
    """Return the autocorrelation of neighbours, from 0 to ``PHI_MAX``, as that of AR(1) noise: the
    mean squares of differences over two values and over one have the ratio 1 + φ, which a level
    that moves slowly hardly changes."""
    import numpy as np

    one, two = (np.mean((values[n:] - values[:-n]) ** 2) for n in (1, 2))
    return min(max(float(two / one) - 1, 0.0), PHI_MAX) if one > 0 else 0.0


def _steps(values: NDArray[np.float64], level: float) -> bool:
    """Return whether the series goes from one level to another."""
    import numpy as np

    edges = [0, *change_points(values), len(values)]
    levels = [float(np.median(values[start:end])) for start, end in pairwise(edges)]
    return any(abs(b - a) > DRIFT_MATTERS * abs(level) for a, b in pairwise(levels))


def _waves(values: NDArray[np.float64], level: float) -> bool:
    """Return whether the series has a wave: two neighbouring ordinates, as its period lies between
    them, with a larger part of the power than noise puts into any two of so many."""
    import numpy as np

    centred = values - values.mean()
    heights = 4 * np.sqrt(_in_twos(_powers(centred))) / len(values)
    powers = _powers(centred[1:] - _phi(values) * centred[:-1])
    count, total = len(powers), float(powers.sum())
    if total <= 0 or heights.max() <= DRIFT_MATTERS * abs(level):
        return False
    share = min(float(_in_twos(powers).max()) / total, 1.0)
    # The part of two of n exponential variables has the beta distribution with 2 and n - 2.
    tail = (1 - share) ** (count - 2) * (1 + (count - 2) * share)
    return (count - 1) * tail < WAVE_CHANCE


def _powers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(np.abs(np.fft.rfft(values - values.mean())[1:]) ** 2)


def _in_twos(powers: NDArray[np.float64]) -> NDArray[np.float64]:
    return powers[1:] + powers[:-1]
