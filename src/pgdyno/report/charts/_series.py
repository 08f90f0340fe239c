"""Conversion of recorded samples for charts: rates of counters, fewer points, stacked areas.

Times are milliseconds since the start of the run, in one-dimensional numpy arrays. This module
depends neither on run files nor on bokeh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

POINTS_MAX = 1500
"""Maximum number of points of a series: about one for each pixel of a wide screen."""

SPACING_MIN = 0.3
"""Share of the usual distance below which two samples count as one."""
GAP_FACTOR = 3.5
"""Multiple of the usual distance from which there is a gap in the line."""


def floats(values: npt.ArrayLike) -> Floats:
    """Return ``values`` as floats, with NaN for NULL."""
    array = np.asarray(values)
    if array.dtype == object:
        array = np.array([np.nan if value is None else value for value in array.tolist()])
    return array.astype(np.float64)


def spaced(at_ms: Floats) -> npt.NDArray[np.intp]:
    """Return the indices of samples that are far enough apart for a rate between them.

    At a slice boundary all probes are read again, perhaps milliseconds after the regular sample; a
    rate over such a short time is noise. The first sample of such a pair is used.
    """
    if not len(at_ms):
        return np.array([], dtype=np.intp)
    least_ms = SPACING_MIN * float(np.median(np.diff(at_ms))) if len(at_ms) > 1 else 0.0
    kept = [0]
    for index in range(1, len(at_ms)):
        if at_ms[index] - at_ms[kept[-1]] >= least_ms:
            kept.append(index)
    return np.array(kept, dtype=np.intp)


def rate(
    at_ms: Floats, counter: Floats, period: npt.NDArray[np.intp] | None = None
) -> tuple[Floats, Floats]:
    """Return the growth of a cumulative counter per second, at the end of each interval between
    samples.

    The rate is NaN if the counter was reset (it decreased, after a crash or ``pg_stat_reset``), and
    between two samples in different periods.
    """
    far_apart = spaced(at_ms)
    at_ms, counter = at_ms[far_apart], counter[far_apart]
    elapsed_s = np.diff(at_ms) / 1000
    grown = np.diff(counter)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_second = np.where((elapsed_s > 0) & (grown >= 0), grown / elapsed_s, np.nan)
    if period is not None:
        per_second[np.diff(period[far_apart]) != 0] = np.nan
    return at_ms[1:], per_second


def shares(counters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return each counter's share of the growth of all between samples, 0 to 1; NaN without growth.

    Used for CPU time: the columns of one sample add up to the elapsed time of all cores.
    """
    grown = {name: np.maximum(np.diff(values), 0) for name, values in counters.items()}
    total = np.sum([np.nan_to_num(part) for part in grown.values()], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: np.where(total > 0, np.nan_to_num(part) / total, np.nan)
            for name, part in grown.items()
        }


class Buckets:
    """Intervals of equal length whose samples are merged, to limit the number of points.

    ``at_ms`` is in order and not empty. With at most ``points_max`` samples, each has its own
    bucket.
    """

    def __init__(self, at_ms: Floats, points_max: int = POINTS_MAX) -> None:
        self.count = len(at_ms)
        numbers: npt.NDArray[np.int64] = np.arange(self.count)
        if self.count > points_max:
            width = (at_ms[-1] - at_ms[0]) / points_max
            numbers = np.minimum((at_ms - at_ms[0]) // width, points_max - 1).astype(np.int64)
        self.firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.at_ms = at_ms[self.firsts]

    @property
    def merged(self) -> bool:
        """True if any bucket has more than one sample."""
        return len(self.firsts) < self.count

    def reduce(self, values: Floats, how: Literal["mean", "min", "max", "sum"] = "mean") -> Floats:
        """Return one value for each bucket, without NaN; NaN if a bucket has no other value."""
        if not self.merged:
            return values
        there = ~np.isnan(values)
        counts = np.add.reduceat(there.astype(np.int64), self.firsts)
        fill = {"min": np.inf, "max": -np.inf}.get(how, 0.0)
        combine = {"min": np.minimum, "max": np.maximum}.get(how, np.add)
        reduced = combine.reduceat(np.where(there, values, fill), self.firsts)
        if how == "mean":
            reduced = reduced / np.maximum(counts, 1)
        return np.where(counts > 0, reduced, np.nan)


def break_gaps(
    at_ms: Floats, columns: Mapping[str, Floats], period: npt.NDArray[np.intp] | None = None
) -> tuple[Floats, dict[str, Floats]]:
    """Return the columns with a NaN row in each gap between samples and between two periods, so
    that no line is drawn across it."""
    if len(at_ms) < 2:
        return at_ms, dict(columns)
    steps = np.diff(at_ms)
    apart = steps > GAP_FACTOR * np.median(steps)
    if period is not None:
        apart |= np.diff(period) != 0
    after = np.flatnonzero(apart) + 1
    if not len(after):
        return at_ms, dict(columns)
    middles = (at_ms[after - 1] + at_ms[after]) / 2
    return np.insert(at_ms, after, middles), {
        name: np.insert(values, after, np.nan) for name, values in columns.items()
    }


def stack(parts: Mapping[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """Return bottom and top of each part when stacked in the given order."""
    bottom: Floats | None = None
    edges = {}
    for name, values in parts.items():
        solid = np.nan_to_num(values)
        base = np.zeros_like(solid) if bottom is None else bottom
        bottom = base + solid
        edges[name] = (base, bottom)
    return edges


def pieces(columns: Mapping[str, Floats]) -> list[slice]:
    """Return the ranges of rows in which any value is known; between them nothing is drawn."""
    known = ~np.all([np.isnan(values) for values in columns.values()], axis=0)
    edges = np.flatnonzero(np.diff(known.astype(np.int8), prepend=0, append=0))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def pivot(at_ms: Floats, names: Iterable[str], values: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Return long rows (time, name, value) as one column per name over the distinct times, summed.

    A name without a row at some time has 0 there.
    """
    times, row_of = np.unique(at_ms, return_inverse=True)
    columns: dict[str, Floats] = {}
    for name, row, value in zip(names, row_of.tolist(), values.tolist(), strict=True):
        columns.setdefault(name, np.zeros(len(times)))[row] += value
    return times, columns


def growth(counter: Floats) -> float:
    """Return the total growth of a cumulative counter, without resets."""
    return float(np.nansum(np.maximum(np.diff(counter), 0)))
