"""Indexes that the load's tables have in addition."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="create-index",
        summary="find rows by an index instead of reading the whole table",
        kind="rewrite",
        durability_class="D0",
        price=(
            "disk space; each insert writes to the index, and so does each update of its columns,"
            " which is no longer HOT"
        ),
        indexes=True,
    ),
)
