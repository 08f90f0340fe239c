"""A client group as it was while some slices lasted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.spec.connections import pooled_connections

if TYPE_CHECKING:
    from pgdyno._engine import Histogram
    from pgdyno.record import StatementTotal

_ROUNDING = 0.02
"""Relative error of the means of histograms with two significant digits, both together."""


@dataclass(frozen=True)
class MeasuredGroup:
    """A client group as it was while the slices lasted."""

    name: str
    clients: int
    instances: int
    """Instances of the application, each with a pool of its own."""
    pool_max: int | None
    """Size of each pool."""
    response_ms: float
    pool_wait_ms: float
    service_ms: float
    between_statements_ms: float | None
    think_ms: float
    throughput_tps: float

    @property
    def in_service(self) -> float:
        """Connections at work on average, by Little's law."""
        return self.throughput_tps * self.service_ms / 1000

    @property
    def sessions_max(self) -> int:
        """The most server sessions that the group can keep busy."""
        if self.pool_max is None:
            return self.clients
        return pooled_connections(self.clients, self.pool_max, self.instances)

    @property
    def pooled(self) -> int:
        """Connections of the pools of all instances; 0 without a pool."""
        return (self.pool_max or 0) * self.instances

    @property
    def pool_words(self) -> str:
        """The connections that a client may get, such as ``2 connections``."""
        if self.instances == 1:
            return f"{self.pool_max} connections"
        return f"the {self.pool_max} connections of its instance ({self.instances:,} instances)"


def gap_ms(service: Histogram, statements: Iterable[StatementTotal]) -> float | None:
    """Return the mean time in service in which none of ``statements`` was under way; None if they
    overlap, as in a pipeline, or were not recorded."""
    answered_ns = sum(each.service.count * each.service.mean for each in statements)
    gap_ms = (service.mean - answered_ns / service.count) / 1e6 if service.count else 0.0
    if not answered_ns or gap_ms < -_ROUNDING * service.mean / 1e6:
        return None
    return max(0.0, gap_ms)
