"""The times that the write probe of a check measured, and the parts of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from pgdyno.json_types import Row

ROUND_TRIP, UNFLUSHED, FLUSHED, COMMIT = "round trip", "without flush", "own flush", "commit"
"""The ways in which the write probe of a check is timed: values of its column ``way``."""
CommitPartName = Literal["network", "server", "flush", "standby"]


class Commits(Struct, frozen=True):
    """Times of one client's commits of one row each, in milliseconds."""

    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    round_trip_p50_ms: float
    parts_ms: Mapping[CommitPartName, float]
    """Part → mean time: differences of means, none below zero."""


def commits_of(rows: Sequence[Row]) -> Commits:
    """Return what the rows of the probe come to."""
    by_way = {row["way"]: row for row in rows}
    whole = by_way[COMMIT]
    means = {way: row["mean_ms"] for way, row in by_way.items()}
    flushed = means.get(FLUSHED, means[COMMIT])
    parts: dict[CommitPartName, float] = {
        "network": means[ROUND_TRIP],
        "server": means[UNFLUSHED] - means[ROUND_TRIP],
        "flush": flushed - means[UNFLUSHED],
    }
    if FLUSHED in means:
        parts["standby"] = means[COMMIT] - flushed
    return Commits(
        count=whole["count"],
        round_trip_p50_ms=by_way[ROUND_TRIP]["p50_ms"],
        parts_ms={part: max(0.0, ms) for part, ms in parts.items()},
        **{name: whole[name] for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")},
    )
