"""Which percentiles are told, and from how many samples on."""

from __future__ import annotations

from collections.abc import Sequence

PERCENTILES: tuple[float, ...] = (50, 95, 99, 99.9, 99.99)


def percentile_name(percentile: float) -> str:
    """``p99.9``"""
    return f"p{percentile:g}"


def is_told(percentile: float, samples: int) -> bool:
    """Whether at least one of ``samples`` lies beyond the percentile.

    With fewer it is the largest sample by another name.
    """
    # In thousandths of a per cent, so that 99.99 of 10,000 is exact.
    beyond = 100_000 - round(percentile * 1000)
    return samples * beyond >= 100_000


def told(percentiles: Sequence[float], samples: int) -> list[float]:
    """Those of ``percentiles`` that so many samples can tell."""
    return [percentile for percentile in percentiles if is_told(percentile, samples)]
