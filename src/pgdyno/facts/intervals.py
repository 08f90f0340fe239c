"""Intervals of load made fit for rates: those too short for one are merged with a neighbour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec.structs import replace

from pgdyno.record import Interval

GAP_MS = 400
"""Intervals follow each other; further apart than this, the load was down in between."""
SHORT_SHARE = 0.5
"""A rate over less than this part of the usual interval jumps."""
_SUMMED = (
    *("intended", "sent", "done", "failed", "skipped", "cancelled", "retried"),
    *("expected_errors", "late"),
)
_TAKEN_LAST = ("clients", "connections", "backlog")


def timed(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intervals of one series without short ones.

    A short interval is merged with a neighbour in its slice, or omitted if it has none.
    """
    if not intervals:
        return []
    least_ms = SHORT_SHARE * median(each.duration_ms for each in intervals)
    return [each for each in _merged(intervals, least_ms) if each.duration_ms >= least_ms]


def whole(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intervals of one series that are long enough for a rate or a percentile."""
    if not intervals:
        return []
    least_ms = SHORT_SHARE * median(each.duration_ms for each in intervals)
    return [each for each in intervals if each.duration_ms >= least_ms]


def follows(before: Interval, after: Interval) -> bool:
    """True if ``after`` goes on where ``before`` ends, in the same slice."""
    gap_ms = after.at_ms - before.at_ms - before.duration_ms
    return before.slice_id == after.slice_id and gap_ms <= GAP_MS


def _merged(intervals: Sequence[Interval], least_ms: float) -> Iterator[Interval]:
    before: Interval | None = None
    for each in intervals:
        if before is None:
            before = each
        elif min(before.duration_ms, each.duration_ms) < least_ms and follows(before, each):
            before = _together(before, each)
        else:
            yield before
            before = each
    if before is not None:
        yield before


def _together(before: Interval, after: Interval) -> Interval:
    summed = {name: getattr(before, name) + getattr(after, name) for name in _SUMMED}
    last = {name: getattr(after, name) for name in _TAKEN_LAST}
    return replace(before, duration_ms=before.duration_ms + after.duration_ms, **summed, **last)
