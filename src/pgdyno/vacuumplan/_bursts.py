"""Bursts, and tables being filled, among counted changes: neither goes on, so it is no rate.

A burst between two looks is the same number as a steady load, so there are looks in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from pgdyno.json_types import Row
from pgdyno.numbers import counted, figure, percent

_PARTS_MAX, _PARTS_MIN = 6, 3
PART_S_MIN = 3.0
"""A session reports its changes once a second or less often."""
_MOST = 0.9
_TIME_MIN = 0.5
"""``_MOST`` of the changes of a rate take at least this share of the time."""


def parts_of(seconds: float) -> int:
    """Return the parts that looks divide a time into; 1: it is too short to distinguish bursts."""
    parts = min(_PARTS_MAX, int(seconds / PART_S_MIN))
    return parts if parts >= _PARTS_MIN else 1


def seconds_to_tell() -> float:
    """Return the shortest time in which a burst can be distinguished from a rate."""
    return _PARTS_MIN * PART_S_MIN


def why_no_rate(seen: Sequence[Row | None]) -> str | None:
    """Return why the changes of a table are no rate, or None.

    ``seen`` has its counters at each look; None: it was not there.
    """
    there = [each for each in seen if each is not None]
    if seen[0] is None:
        return "it was not there at the first look"
    first, last = there[0], there[-1]
    rows = max(float(first["rows"]), float(first["live"] or 0))
    more = (last["inserted"] - first["inserted"]) - (last["deleted"] - first["deleted"])
    if more > rows and _doubled(first["bytes"], last["bytes"]):
        had = counted(rows, "row", "rows")
        return f"it had {had} at the first look, and {figure(more)} more since: that is no rate"
    changes = [max(0, _changed(after) - _changed(before)) for before, after in pairwise(there)]
    if (parts := len(changes)) < _PARTS_MIN:
        return None
    sums = accumulate(sorted(changes, reverse=True))
    needed = 1 + sum(each < _MOST * sum(changes) for each in sums)
    if needed >= _TIME_MIN * parts:
        return None
    return (
        f"{percent(_MOST)} of its changes came in {needed} of {parts} parts of the time: a burst"
        " is no rate"
    )


def _doubled(before: int | None, after: int | None) -> bool:
    """True for sizes that are not known, too: rows decide then."""
    return before is None or after is None or after >= 2 * before


def _changed(row: Row) -> int:
    return int(row["inserted"] or 0) + int(row["updated"] or 0) + int(row["deleted"] or 0)
