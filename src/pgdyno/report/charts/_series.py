"""From recorded samples to what a chart draws: rates out of counters, fewer points, stacks.

Times are milliseconds since the run's start throughout, in numpy arrays of one dimension. Nothing
here knows of the run file or of bokeh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

POINTS_MAX = 1500
"""Points of one series in the report: about one for each pixel of a wide screen."""

LEAST_SPACING = 0.3
"""Samples nearer to each other than this part of the usual distance are one."""
GAP_FACTOR = 3.5
"""A silence this many times the usual distance is a gap: the line breaks there."""


def floats(values: npt.ArrayLike) -> Floats:
    """``values`` as floats, with NaN for what is NULL."""
    array = np.asarray(values)
    if array.dtype == object:
        array = np.array([np.nan if value is None else value for value in array.tolist()])
    return array.astype(np.float64)


def spaced(at_ms: Floats) -> npt.NDArray[np.intp]:
    """Indices of samples far enough apart to draw a rate between them.

    At a slice's edge everything is read once more, perhaps milliseconds after the regular reading;
    a rate over so short a time is noise. Of such a pair the first is kept.
    """
    if not len(at_ms):
        return np.array([], dtype=np.intp)
    least_ms = LEAST_SPACING * float(np.median(np.diff(at_ms))) if len(at_ms) > 1 else 0.0
    kept = [0]
    for index in range(1, len(at_ms)):
        if at_ms[index] - at_ms[kept[-1]] >= least_ms:
            kept.append(index)
    return np.array(kept, dtype=np.intp)


def rate(
    at_ms: Floats, counter: Floats, stretch: npt.NDArray[np.intp] | None = None
) -> tuple[Floats, Floats]:
    """Growth of a cumulative counter per second, at the end of each stretch between samples.

    A counter that fell was reset (a crash, ``pg_stat_reset``): that stretch is NaN. So is what lies
    between two samples of which ``stretch`` has different numbers.
    """
    far_apart = spaced(at_ms)
    at_ms, counter = at_ms[far_apart], counter[far_apart]
    elapsed_s = np.diff(at_ms) / 1000
    grown = np.diff(counter)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_second = np.where((elapsed_s > 0) & (grown >= 0), grown / elapsed_s, np.nan)
    if stretch is not None:
        per_second[np.diff(stretch[far_apart]) != 0] = np.nan
    return at_ms[1:], per_second


def shares(counters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Each counter's part of the growth of all of them between samples, 0 to 1, NaN if none grew.

    For processor time: the columns of one sample add up to the time that passed on all cores.
    """
    grown = {name: np.maximum(np.diff(values), 0) for name, values in counters.items()}
    total = np.sum([np.nan_to_num(part) for part in grown.values()], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            name: np.where(total > 0, np.nan_to_num(part) / total, np.nan)
            for name, part in grown.items()
        }


class Buckets:
    """Stretches of equal length that samples are put together in, so that few enough are drawn.

    ``at_ms`` is in order and not empty. With ``most`` samples or fewer each has its own bucket.
    """

    def __init__(self, at_ms: Floats, most: int = POINTS_MAX) -> None:
        self.count = len(at_ms)
        numbers: npt.NDArray[np.int64] = np.arange(self.count)
        if self.count > most:
            width = (at_ms[-1] - at_ms[0]) / most
            numbers = np.minimum((at_ms - at_ms[0]) // width, most - 1).astype(np.int64)
        self.firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self.at_ms = at_ms[self.firsts]

    @property
    def merged(self) -> bool:
        """Whether any bucket holds more than one sample."""
        return len(self.firsts) < self.count

    def reduce(self, values: Floats, how: Literal["mean", "min", "max", "sum"] = "mean") -> Floats:
        """One value for each bucket, NaN left out; NaN where a bucket has nothing else."""
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
    at_ms: Floats, columns: Mapping[str, Floats], stretch: npt.NDArray[np.intp] | None = None
) -> tuple[Floats, dict[str, Floats]]:
    """A NaN row in each gap, so that no line is drawn through time that nobody sampled, nor from
    one ``stretch`` to the next."""
    if len(at_ms) < 2:
        return at_ms, dict(columns)
    steps = np.diff(at_ms)
    apart = steps > GAP_FACTOR * np.median(steps)
    if stretch is not None:
        apart |= np.diff(stretch) != 0
    after = np.flatnonzero(apart) + 1
    if not len(after):
        return at_ms, dict(columns)
    middles = (at_ms[after - 1] + at_ms[after]) / 2
    return np.insert(at_ms, after, middles), {
        name: np.insert(values, after, np.nan) for name, values in columns.items()
    }


def stack(parts: Mapping[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """Bottom and top of each part when they stand on each other, in the given order."""
    bottom: Floats | None = None
    edges = {}
    for name, values in parts.items():
        solid = np.nan_to_num(values)
        base = np.zeros_like(solid) if bottom is None else bottom
        bottom = base + solid
        edges[name] = (base, bottom)
    return edges


def pieces(columns: Mapping[str, Floats]) -> list[slice]:
    """The runs of rows in which anything is known: between them nothing is to be drawn."""
    known = ~np.all([np.isnan(values) for values in columns.values()], axis=0)
    edges = np.flatnonzero(np.diff(known.astype(np.int8), prepend=0, append=0))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def pivot(at_ms: Floats, names: Iterable[str], values: Floats) -> tuple[Floats, dict[str, Floats]]:
    """Long rows (time, name, value) as one column per name over the distinct times, summed.

    A name that is silent at some time has 0 there.
    """
    times, row_of = np.unique(at_ms, return_inverse=True)
    columns: dict[str, Floats] = {}
    for name, row, value in zip(names, row_of.tolist(), values.tolist(), strict=True):
        columns.setdefault(name, np.zeros(len(times)))[row] += value
    return times, columns


def growth(counter: Floats) -> float:
    """How much a cumulative counter grew in all, resets left out."""
    return float(np.nansum(np.maximum(np.diff(counter), 0)))
