"""Percentiles, each only where enough samples lie beyond it to mean anything.

The rule: a percentile is reported if at least ten samples lie beyond it, so p50 takes 20 samples,
p99 1,000 and p99.99 100,000. With fewer, the figure is one or two outliers under another name; the
maximum, which is always there, says what they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
BEYOND_MIN = 10
"""Samples that must lie beyond a percentile for it to be reported."""


@dataclass(frozen=True)
class Distribution:
    """Durations in nanoseconds, summed up; all 0, and no percentile, if there are none."""

    count: int
    mean_ns: float
    max_ns: int
    percentiles_ns: Mapping[float, int | None]
    """By per cent; None where fewer than ten samples lie beyond."""

    @classmethod
    def of(cls, histogram: Histogram) -> Distribution:
        """What a histogram holds."""
        count = histogram.count
        percentiles = {
            p: histogram.percentile(p) if beyond(count, p) >= BEYOND_MIN else None
            for p in PERCENTILES
        }
        return cls(count, histogram.mean, histogram.max, percentiles)

    def to_json(self) -> dict[str, float | None]:
        """In milliseconds: p50 … p99.99 (None: too few samples), max, mean; and count."""
        percentiles = {f"p{p:g}": _ms(ns) for p, ns in self.percentiles_ns.items()}
        whole = {"max": _ms(self.max_ns), "mean": _ms(self.mean_ns), "count": self.count}
        return percentiles | whole


def beyond(count: int, percentile: float) -> int:
    """How many of ``count`` samples lie beyond a percentile, by rank."""
    # The tiny amount keeps 99.99 % of 100,000 from being a little more than 99,990.
    return count - math.ceil(count * percentile / 100 - 1e-6)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 3)
