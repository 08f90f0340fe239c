"""Statements that pg_stat_statements counted: what a run file says beside their counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from pgdyno.record._reader import RunFile

PROBE = "pg_stat_statements"
"""The probe whose events have the ``count`` of times that it threw out statements."""
_SECOND_PARAMETER = re.compile(r"\$2(?!\d)")


def beginning(text: str) -> str:
    """Return a statement up to its second parameter: lists of different lengths begin alike.

    The query by which many watch pg_stat_statements cuts at the first digit 2, which is the same
    where no name has one.
    """
    found = _SECOND_PARAMETER.search(text)
    return text if found is None else text[: found.end()]


def evictions_in(run: RunFile, slice_ids: Collection[int]) -> int:
    """Return how often statements were evicted because the view was full; their counts are lost."""
    return sum(
        int(each.detail.get("count", 0))
        for each in run.events("probe")
        if each.detail.get("probe") == PROBE and each.slice_id in slice_ids
    )


def why_absent(run: RunFile) -> str | None:
    """Return why there are no counts, if they could not be read."""
    reasons = [
        e.detail.get("reason") for e in run.events("probe") if e.detail.get("probe") == PROBE
    ]
    return next((str(reason) for reason in reasons if reason), None)
