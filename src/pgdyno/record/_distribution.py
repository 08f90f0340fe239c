"""Percentiles of a distribution, each reported only if at least ten samples lie beyond it.

p50 therefore needs 20 samples, p99 1,000 and p99.99 100,000. With fewer samples a percentile would
rest on one or two outliers, which the maximum, always reported, shows as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
BEYOND_MIN = 10
"""Minimum number of samples beyond a reported percentile."""


class Distribution(Struct, frozen=True):
    """Summary of durations in nanoseconds; without samples all 0, and no percentiles."""

    count: int
    mean_ns: float
    max_ns: int
    percentiles_ns: Mapping[float, int | None]
    """Percentile → duration; None if fewer than ten samples lie beyond."""

    @classmethod
    def of(cls, histogram: Histogram) -> Distribution:
        """Return the summary of a histogram."""
        count = histogram.count
        percentiles = {
            p: histogram.percentile(p) if beyond(count, p) >= BEYOND_MIN else None
            for p in PERCENTILES
        }
        return cls(count, histogram.mean, histogram.max, percentiles)

    def to_json(self) -> dict[str, float | None]:
        """Return p50 … p99.99 (None: too few samples), max and mean in milliseconds, and count."""
        percentiles = {f"p{p:g}": _ms(ns) for p, ns in self.percentiles_ns.items()}
        whole = {"max": _ms(self.max_ns), "mean": _ms(self.mean_ns), "count": self.count}
        return percentiles | whole


def beyond(count: int, percentile: float) -> int:
    """Return how many of ``count`` samples lie beyond a percentile, by rank."""
    # Without the subtraction, rounding makes 99.99 % of 100,000 a little more than 99,990.
    return count - math.ceil(count * percentile / 100 - 1e-6)


def samples_needed(percentile: float) -> int:
    """Return the samples of which enough lie beyond a percentile."""
    return math.ceil(BEYOND_MIN / (1 - percentile / 100) - 1e-6)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)
