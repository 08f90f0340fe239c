"""The course of a load: how many transactions and sessions there were in each part of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from pgdyno.clone.capture_file import Interval

INTERVALS_MAX = 200
_SHORT = 0.5
"""Part of the mean length below which the last interval belongs to the one before."""


class Read(Struct, frozen=True):
    """The transactions between a reading and the one before; times of the monotonic clock."""

    began_s: float
    ended_s: float
    transactions: float


class Burst(Struct, frozen=True):
    """Sessions that were seen in a burst."""

    at_s: float
    sessions: int
    busy: float
    """Mean number of those within a transaction."""
    queries: int
    """Those of the burst itself, each a transaction."""


def course_of(
    reads: Sequence[Read], bursts: Sequence[Burst], others_per_s: float
) -> tuple[Interval, ...]:
    """Return the course in at most ``INTERVALS_MAX`` intervals, () for a single one. Of the
    transactions those of the capture are left out: the bursts', and ``others_per_s``."""
    groups = _groups(reads)
    if len(groups) < 2:
        return ()
    # A session reports its transactions when the next one begins.
    counted_at = [each.at_s for each in bursts[1:]]
    own = list(zip(counted_at, (each.queries for each in bursts), strict=False))
    found = []
    for began_s, ended_s, transactions in groups:
        seconds = ended_s - began_s
        ours = others_per_s * seconds + sum(n for at, n in own if began_s < at <= ended_s)
        seen = [each for each in bursts if began_s < each.at_s <= ended_s]
        seen = seen or [each for each in bursts if each.at_s <= ended_s][-1:]
        number = max(1, len(seen))
        found.append(
            Interval(
                seconds=round(seconds, 1),
                transactions_per_s=round(max(0.0, transactions - ours) / seconds, 3),
                sessions=round(sum(each.sessions for each in seen) / number, 2),
                busy_sessions=round(sum(each.busy for each in seen) / number, 2),
            )
        )
    return tuple(found)


def _groups(reads: Sequence[Read]) -> list[tuple[float, float, float]]:
    """Return beginning, end and transactions of intervals, about equally long."""
    reads = [each for each in reads if each.ended_s > each.began_s]
    size = math.ceil(len(reads) / INTERVALS_MAX) or 1
    parts = [list(reads[at : at + size]) for at in range(0, len(reads), size)]
    if len(parts) > 1 and _seconds(parts[-1]) < _SHORT * _seconds(reads) / len(parts):
        parts[-2:] = [[*parts[-2], *parts[-1]]]
    return [
        (each[0].began_s, each[-1].ended_s, sum(read.transactions for read in each))
        for each in parts
    ]


def _seconds(reads: Sequence[Read]) -> float:
    return reads[-1].ended_s - reads[0].began_s
