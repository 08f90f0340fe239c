"""Limits of the response time, such as ``p99<20ms``, which a rate must meet (``--slo``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from pgdyno import numbers
from pgdyno.record import samples_needed
from pgdyno.spec.units import format_duration_us, parse_duration_us

if TYPE_CHECKING:
    from pgdyno._engine import Histogram

_LIMIT = re.compile(r"\s*([A-Za-z0-9.]+)\s*(<=?)\s*([^<>=]+?)\s*")
_PERCENTILES = {
    "p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0,
    "p999": 99.9, "p99.9": 99.9, "p9999": 99.99, "p99.99": 99.99,
}  # fmt: skip
_MEAN = "mean"
EXAMPLE = "p99<20ms"


class Limit(Struct, frozen=True):
    """A limit of one figure of the response time."""

    figure: str
    """p50, p99, p99.9, … or mean."""
    percentile: float | None
    """None: the mean."""
    most_us: int
    inclusive: bool

    def __str__(self) -> str:
        sign = "≤" if self.inclusive else "<"
        return f"{self.figure} {sign} {format_duration_us(self.most_us)}"

    def of(self, response: Histogram) -> float:
        """Return the figure that is limited, in ns."""
        if self.percentile is None:
            return float(response.mean)
        return float(response.percentile(self.percentile))

    def is_met(self, response: Histogram) -> bool:
        """Return whether the response times are within the limit."""
        most_ns = self.most_us * 1000
        value_ns = self.of(response)
        return value_ns <= most_ns if self.inclusive else value_ns < most_ns

    def exceeded_words(self, response: Histogram) -> str:
        """Return how the limit is exceeded: the figure, or of few transactions, how many took
        longer."""
        if response.count >= self.samples_needed:
            return f"{self.figure} {numbers.significant(self.of(response) / 1e6)} ms"
        longer = response.count_between(self.most_us * 1000, response.max)
        most = format_duration_us(self.most_us)
        return f"{longer:,} of {response.count:,} transactions took longer than {most}"

    @property
    def samples_needed(self) -> int:
        """Number of transactions that the figure needs."""
        return 1 if self.percentile is None else samples_needed(self.percentile)


def parse_limits(text: str) -> tuple[Limit, ...]:
    """Parse limits that are separated by commas, all of which must be met. ValueError with a
    message for users."""
    limits = tuple(_parse(part) for part in text.split(","))
    names = [each.figure for each in limits]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'"{text}" limits {name} twice')
    return limits


def _parse(text: str) -> Limit:
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a limit such as {EXAMPLE}')
    figure, sign, duration = match.groups()
    figure = figure.lower()
    if figure != _MEAN and figure not in _PERCENTILES:
        known = ", ".join((*(name for name in _PERCENTILES if name.count("9") < 3), "p99.9", _MEAN))
        raise ValueError(f'"{text}": "{figure}" is none of {known}')
    most_us = parse_duration_us(duration)
    if not most_us:
        raise ValueError(f'"{text}": no response time is shorter than {duration}')
    percentile = _PERCENTILES.get(figure)
    name = figure if percentile is None else f"p{percentile:g}"
    return Limit(name, percentile, most_us, sign == "<=")
