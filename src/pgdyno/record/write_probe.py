"""Commits of one client as the write probe of a check timed them, with the parts of their time."""

from collections.abc import Sequence
from typing import Literal

from pgdyno.json_types import Row
from pgdyno.numbers import rounded
from pgdyno.record.part import Part

ROUND_TRIP, UNFLUSHED, FLUSHED, COMMIT = "round trip", "without flush", "own flush", "commit"
"""The ways in which the write probe is timed: values of its column ``way``."""
CommitPartName = Literal["network", "server", "flush", "standby"]


class CommitPart(Part):
    part: CommitPartName
    """network: the plain round trip of select 1; server: the rest of an insert that does not wait
    for the flush; flush: of the server's own WAL; standby: what standbys add"""
    mean_ms: float
    """A difference of means; 0 where it is below zero"""


class WriteProbe(Part):
    """Inserts of one client, each with its commit, into a table of pgdyno's own"""

    commits: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    round_trip_p50_ms: float
    """Of select 1"""
    parts: tuple[CommitPart, ...]


def write_probe_of(rows: Sequence[Row]) -> WriteProbe:
    """Return the times from the rows of the probe."""
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
    names = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    return WriteProbe(
        commits=whole["count"],
        round_trip_p50_ms=rounded(by_way[ROUND_TRIP]["p50_ms"]),
        parts=tuple(
            CommitPart(part=part, mean_ms=rounded(max(0.0, ms))) for part, ms in parts.items()
        ),
        **{name: rounded(whole[name]) for name in names},
    )
