"""Batches of samplings as steps over time: each covers the time in which it was sampled.

Times are milliseconds since the start of the run, in one-dimensional numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pgdyno.report.charts._series import POINTS_MAX, Buckets, Floats

LATE_FACTOR = 1.8
"""Multiple of its usual length up to which a batch begins at the end of the one before it."""


def batch_begins(ends_ms: Floats, ticks: Floats) -> Floats:
    """Return the begin of each batch from its end and its number of samplings."""
    if len(ends_ms) < 2:
        return ends_ms - 100.0 * ticks
    distances_ms = np.diff(ends_ms)
    lengths_ms = ticks * float(np.median(distances_ms / ticks[1:]))
    begins_ms = ends_ms - lengths_ms
    follows = distances_ms <= LATE_FACTOR * lengths_ms[1:]
    begins_ms[1:] = np.where(follows, ends_ms[:-1], begins_ms[1:])
    return begins_ms


def joined(
    begins_ms: Floats,
    ends_ms: Floats,
    ticks: Floats,
    columns: Mapping[str, Floats],
    ticks_min: int,
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return batches without short ones: a batch of fewer than ``ticks_min`` samplings is averaged
    with the batch that it follows, or left out if there is none."""
    kept = ticks >= ticks_min
    if not kept.any():
        kept = np.ones(len(ticks), dtype=bool)
    owner = -1
    weights, lasts_ms = ticks.copy(), ends_ms.copy()
    sums = {name: values * ticks for name, values in columns.items()}
    for index in range(len(ticks)):
        if kept[index]:
            owner = index
        elif owner >= 0 and begins_ms[index] <= lasts_ms[owner]:
            weights[owner] += ticks[index]
            lasts_ms[owner] = ends_ms[index]
            for values in sums.values():
                values[owner] += values[index]
    return (
        begins_ms[kept],
        lasts_ms[kept],
        {name: values[kept] / weights[kept] for name, values in sums.items()},
    )


def steps(
    begins_ms: Floats, ends_ms: Floats, columns: Mapping[str, Floats]
) -> tuple[Floats, dict[str, Floats]]:
    """Return two points for each batch, and a NaN row between batches that do not follow each
    other. Many batches are merged."""
    buckets = Buckets(begins_ms, POINTS_MAX // 3)
    lasts = np.append(buckets.firsts[1:], len(ends_ms)) - 1
    begins_ms, ends_ms = begins_ms[buckets.firsts], ends_ms[lasts]
    times_ms = np.column_stack((begins_ms, ends_ms)).ravel()
    gaps = 2 * (np.flatnonzero(begins_ms[1:] > ends_ms[:-1]) + 1)
    return np.insert(times_ms, gaps, times_ms[gaps]), {
        name: np.insert(np.repeat(buckets.reduce(values), 2), gaps, np.nan)
        for name, values in columns.items()
    }
