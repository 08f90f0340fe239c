"""States of client sessions, and the buckets of their ages, as recorded in metric_origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

STATES = {
    "active": "active",
    "idle": "idle",
    "idle in transaction": "in_transaction",
    "idle in transaction (aborted)": "in_aborted",
    "fastpath function call": "fastpath",
    "disabled": "disabled",
}
"""Column of metric_origin by state of pg_stat_activity; all six are always recorded."""

BOUNDS_S = (1, 10, 60, 600, 3600)
"""Upper bounds of the buckets of ages, in seconds; the last bucket has none. From the limits of
usual pools: pgpool-II's connection_life_time of a minute, HikariCP's idleTimeout of ten."""
WORDS = ("< 1 s", "1 to 10 s", "10 s to 1 min", "1 to 10 min", "10 min to 1 h", "≥ 1 h")
"""The buckets in words."""
EMPTY = (0,) * (len(BOUNDS_S) + 1)


def written(counts: Iterable[int]) -> str:
    """Return the text of a histogram in the run file: its counts, separated by spaces."""
    return " ".join(map(str, counts))


def read(text: str | None) -> tuple[int, ...]:
    """Return the counts of a histogram in the run file; none of NULL."""
    return tuple(map(int, text.split())) if text else EMPTY


def added(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return the sum of two histograms."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def older(counts: Sequence[int], bound_s: int) -> int:
    """Return how many are at least as old as one of ``BOUNDS_S``."""
    return sum(counts[BOUNDS_S.index(bound_s) + 1 :])
