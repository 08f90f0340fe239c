"""A pooler in front of the server, or its settings."""

from __future__ import annotations

from pgdyno.remedy._remedy import Remedy

REMEDIES = (
    Remedy(
        id="pooler",
        summary="let clients connect through a pooler, or change its settings",
        kind="client",
        durability_class="D0",
        price=(
            "one more process between clients and server, with its CPU time and its queue; in"
            " transaction mode sessions keep no state: session settings, advisory locks, LISTEN,"
            " temporary tables and, in older versions, prepared statements"
        ),
        keys=("pooler.*",),
    ),
)
